/* The one thread pool of the process. */
#ifndef ORK_POOL_H
#define ORK_POOL_H

#include <stdatomic.h>
#include <stdint.h>

#define ORK_MAX_THREADS 64

typedef void (*ork_job)(void *argument, int thread);

/* Runs job on up to `threads` threads, the caller being thread 0, and returns when all that came have
 * left it. A job must not count on the others: one that comes too late is not waited for, so the
 * caller alone must be able to do all of the work. */
void ork_parallel(ork_job job, void *argument, int threads);

/* Returns once *word is `wanted`; spins for some microseconds and then parks. */
void ork_await(_Atomic uint32_t *word, uint32_t wanted);

/* To be called after a sequentially consistent change of the word to what others await. */
void ork_wake(_Atomic uint32_t *word);

#endif
