/* The one thread pool of the process. */
#ifndef ORK_POOL_H
#define ORK_POOL_H

#include <stdatomic.h>
#include <stdint.h>

#define ORK_MAX_THREADS 64

/* What the threads of one parallel call share. */
typedef struct ork_team {
    int threads;
    _Atomic uint32_t arrived;
    _Atomic uint32_t phase;
} ork_team;

typedef void (*ork_job)(void *argument, ork_team *team, int thread);

/* Runs job on `threads` threads, the caller being thread 0, and returns when all are done. */
void ork_parallel(ork_job job, void *argument, int threads);

/* Waits until every thread of the team is here. */
void ork_barrier(ork_team *team);

#endif
