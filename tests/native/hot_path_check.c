/* Runs a compiled program's native side against a device that answers at once; prints what went wrong. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "api/hot_path.h"

enum { BYTES = 2048, WORDS = 2048, SYNC = 1, SUBMIT = 2 };

static uint8_t source[BYTES], staging[BYTES], mirror[4 * WORDS];
static uint32_t result[WORDS];
static int syncs, submits, failures;

static int device(int fd, unsigned long request, void *argument)
{
    (void)argument;
    if (fd != 3)
        return -EBADF;
    syncs += request == SYNC;
    if (request == SUBMIT) {
        submits++;
        for (uint32_t i = 0; i < WORDS; i++)
            result[i] = i * 3 + (uint32_t)submits;
    }
    return 0;
}

static void expect(int truth, const char *what)
{
    if (!truth) {
        printf("wrong: %s\n", what);
        failures++;
    }
}

int main(void)
{
    uint32_t *bell = &result[WORDS - 1];
    const uint8_t *from = (const uint8_t *)result;
    uint8_t *to = mirror;
    int64_t bytes = sizeof mirror;
    ork_hot_path program = {
        .source = source, .staging = staging, .activation_bytes = BYTES,
        .bells = 1, .pattern = 0x7fffffff, .bell = &bell,
        .copies = 1, .cached_results = 1, .result = &from, .mirror = &to, .result_bytes = &bytes,
        .fd = 3, .call = device, .sync_request = SYNC, .submit_request = SUBMIT, .window_ns = 20000000,
    };
    for (int maintain = 0; maintain < 2; maintain++) {
        for (int i = 0; i < BYTES; i++)
            source[i] = (uint8_t)(i * 7 + maintain);
        program.maintain_cache = maintain;
        expect(ork_hot_run(&program) == 0, "a run succeeds");
        expect(memcmp(staging, source, BYTES) == 0, "A is brought to the device");
        expect(memcmp(mirror, result, sizeof mirror) == 0, "C is copied out");
    }
    expect(syncs == 1 && submits == 2, "the sync is called only where caches are not maintained here");
    ork_hot_refresh(&program);
    expect(*bell == program.pattern, "the pattern is written");
    expect(ork_hot_poll(&program) == -ETIMEDOUT, "a bell that does not ring is a time-out");
    for (int start = 0; start < 130; start += 13)
        ork_cache_clean(source + start, BYTES - 2 * start), ork_cache_clean_invalidate(source + start, 1);
    for (int i = 0; i < BYTES; i++)
        expect(source[i] == (uint8_t)(i * 7 + 1), "cache maintenance changes no byte");
    printf("maintained %d, failures %d\n", ork_cache_maintained(), failures);
    return failures != 0;
}
