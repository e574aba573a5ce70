int ork_available_threads(void);
int ork_pool_threads(void);
