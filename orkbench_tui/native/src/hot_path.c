/* One run of a compiled program: bring A, write the patterns, submit, look until the results are there.
 *
 * Nothing is allocated and nothing but the two ioctls leaves user space. A program whose device has no
 * descriptor is refreshed and polled here while its caller does the two calls. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "api/hot_path.h"

enum { SPIN_NS = 1000000, BACKOFF_NS = 50000, LOOKS_PER_CLOCK = 16 };

#if defined(__aarch64__)

/* Linux lets programs maintain the data cache by address and read the line size. */
static uint64_t line_bytes(void)
{
    uint64_t type;
    __asm__ volatile("mrs %0, ctr_el0" : "=r"(type));
    return 4u << (type >> 16 & 15);
}

int ork_cache_maintained(void)
{
    return 1;
}

void ork_cache_clean(const void *start, int64_t bytes)
{
    uint64_t line = line_bytes(), end = (uint64_t)start + (uint64_t)bytes;
    for (uint64_t at = (uint64_t)start & ~(line - 1); at < end; at += line)
        __asm__ volatile("dc cvac, %0" ::"r"(at) : "memory");
    __asm__ volatile("dsb sy" ::: "memory");
}

void ork_cache_clean_invalidate(const void *start, int64_t bytes)
{
    uint64_t line = line_bytes(), end = (uint64_t)start + (uint64_t)bytes;
    for (uint64_t at = (uint64_t)start & ~(line - 1); at < end; at += line)
        __asm__ volatile("dc civac, %0" ::"r"(at) : "memory");
    __asm__ volatile("dsb sy" ::: "memory");
}

static void wait_a_little(void)
{
    __asm__ volatile("yield");
}

#else

/* Caches of other processors are coherent with their devices, or have no such instruction for us. */
int ork_cache_maintained(void)
{
    return 0;
}

void ork_cache_clean(const void *start, int64_t bytes)
{
    (void)start, (void)bytes;
    __sync_synchronize();
}

void ork_cache_clean_invalidate(const void *start, int64_t bytes)
{
    (void)start, (void)bytes;
    __sync_synchronize();
}

static void wait_a_little(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

#endif

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void ork_hot_refresh(ork_hot_path *program)
{
    if (program->source)
        memcpy(program->staging, program->source, (size_t)program->activation_bytes);
    if (program->maintain_cache)
        ork_cache_clean(program->staging, program->activation_bytes);
    for (int32_t i = 0; i < program->bells; i++)
        *(volatile uint32_t *)program->bell[i] = program->pattern;
    /* All of it: a dirty line left by the caller would be evicted over what the device writes. */
    for (int32_t i = 0; program->cached_results && i < program->copies; i++)
        ork_cache_clean_invalidate(program->result[i], program->result_bytes[i]);
    __sync_synchronize();
}

static int call(const ork_hot_path *program, unsigned long request, void *argument)
{
    int answer;
    do {
        if (program->call) {
            answer = program->call(program->fd, request, argument);
            if (answer < 0)
                return answer;
        } else {
            answer = ioctl(program->fd, request, argument);
            if (answer < 0 && errno != EINTR && errno != EAGAIN)
                return -errno;
        }
    } while (answer < 0);
    return 0;
}

int ork_hot_submit(ork_hot_path *program)
{
    if (!program->maintain_cache) {
        int failed = call(program, program->sync_request, program->sync_argument);
        if (failed)
            return failed;
    }
    return call(program, program->submit_request, program->submit_argument);
}

/* Programs run in order, so the last bell is looked at until it rings and the others then have. */
static int rung(const ork_hot_path *program)
{
    for (int32_t i = program->bells - 1; i >= 0; i--) {
        if (program->cached_results)
            ork_cache_clean_invalidate(program->bell[i], sizeof(uint32_t));
        if (*(volatile uint32_t *)program->bell[i] == program->pattern)
            return 0;
    }
    __sync_synchronize();
    return 1;
}

int ork_hot_poll(ork_hot_path *program)
{
    int64_t began = now_ns(), passed = 0;
    const struct timespec pause = {0, BACKOFF_NS};
    program->looks = 1;
    while (!rung(program)) {
        if (program->looks++ % LOOKS_PER_CLOCK == 0 || passed > SPIN_NS) {
            passed = now_ns() - began;
            if (passed > program->window_ns)
                return -ETIMEDOUT;
            if (passed > SPIN_NS)
                nanosleep(&pause, NULL);
        }
        wait_a_little();
    }
    program->elapsed_ns = now_ns() - began;
    for (int32_t i = 0; i < program->copies; i++) {
        if (program->cached_results)
            ork_cache_clean_invalidate(program->result[i], program->result_bytes[i]);
        if (program->mirror[i])
            memcpy(program->mirror[i], program->result[i], (size_t)program->result_bytes[i]);
    }
    return 0;
}

int ork_hot_run(ork_hot_path *program)
{
    ork_hot_refresh(program);
    int failed = ork_hot_submit(program);
    return failed ? failed : ork_hot_poll(program);
}
