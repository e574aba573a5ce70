const char *ork_instruction_set(void);
void ork_use_portable(int portable);
