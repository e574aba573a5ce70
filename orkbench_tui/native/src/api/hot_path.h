typedef struct {
    const uint8_t *source;
    uint8_t *staging;
    int64_t activation_bytes;

    int32_t bells;
    uint32_t pattern;
    uint32_t **bell;

    int32_t copies;
    int32_t cached_results;
    const uint8_t **result;
    uint8_t **mirror;
    int64_t *result_bytes;

    int32_t fd;
    int32_t maintain_cache;
    int (*call)(int, unsigned long, void *);
    unsigned long sync_request;
    void *sync_argument;
    unsigned long submit_request;
    void *submit_argument;

    int64_t window_ns;
    int64_t elapsed_ns;
    int64_t looks;
} ork_hot_path;

int ork_cache_maintained(void);
void ork_cache_clean(const void *start, int64_t bytes);
void ork_cache_clean_invalidate(const void *start, int64_t bytes);
void ork_hot_refresh(ork_hot_path *program);
int ork_hot_submit(ork_hot_path *program);
int ork_hot_poll(ork_hot_path *program);
int ork_hot_run(ork_hot_path *program);
