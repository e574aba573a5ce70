/* A pool that spins for some microseconds and then parks on a futex.
 *
 * Two pools that both spin destroy each other on a small machine, so the process has this one only.
 * Steps of a plan follow each other within microseconds: parking at once would cost more than the
 * step. Between plans (sampling, printing, waiting for the NPU) threads must not burn a core.
 */
#define _GNU_SOURCE
#include "pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/pool.h"

#define SPINS 3000

static struct {
    pthread_mutex_t calls; /* one parallel call at a time */
    int workers;
    _Atomic uint32_t call; /* changes with every call; parked workers wait on it */
    _Atomic uint32_t running;
    _Atomic uint32_t sleepers;
    uint32_t hired_at[ORK_MAX_THREADS]; /* the call each worker need not answer any more */
    ork_team team;
    ork_job job;
    void *argument;
} pool = {.calls = PTHREAD_MUTEX_INITIALIZER};

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void park(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

/* To be called after the word was changed with sequential consistency: then either this thread sees
 * the sleeper, or the sleeper (or the kernel for it) sees the new word. */
static void wake_all(_Atomic uint32_t *word) {
    if (atomic_load(&pool.sleepers) == 0) return;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Returns once *word is no longer `seen`. */
static void await_change(_Atomic uint32_t *word, uint32_t seen) {
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(word, memory_order_acquire) != seen) return;
        relax();
    }
    atomic_fetch_add(&pool.sleepers, 1);
    while (atomic_load(word) == seen) park(word, seen);
    atomic_fetch_sub(&pool.sleepers, 1);
}

void ork_barrier(ork_team *team) {
    if (team->threads == 1) return;
    uint32_t phase = atomic_load_explicit(&team->phase, memory_order_acquire);
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 == (uint32_t)team->threads) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        atomic_store(&team->phase, phase + 1);
        wake_all(&team->phase);
    } else {
        await_change(&team->phase, phase);
    }
}

static void *worker(void *index) {
    int thread = (int)(intptr_t)index + 1;
    uint32_t seen = pool.hired_at[thread - 1];
    for (;;) {
        await_change(&pool.call, seen);
        seen = atomic_load_explicit(&pool.call, memory_order_acquire);
        if (thread < pool.team.threads) pool.job(pool.argument, &pool.team, thread);
        /* Every worker checks out, also an idle one: nobody may still be reading pool.team when the
         * next call writes it. */
        if (atomic_fetch_sub(&pool.running, 1) == 1) wake_all(&pool.running);
    }
    return NULL;
}

static void forget_workers(void) {
    /* The threads do not exist in a forked child. */
    pool.workers = 0;
    atomic_store(&pool.running, 0);
    atomic_store(&pool.sleepers, 0);
    pthread_mutex_init(&pool.calls, NULL);
}

static void once_forked(void) { pthread_atfork(NULL, NULL, forget_workers); }

static void hire(int wanted) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (pool.workers >= wanted) return;
    pthread_once(&once, once_forked);
    sigset_t all, before;
    sigfillset(&all); /* signals belong to the threads of the interpreter */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.workers < wanted) {
        pthread_t thread;
        pool.hired_at[pool.workers] = atomic_load(&pool.call);
        if (pthread_create(&thread, NULL, worker, (void *)(intptr_t)pool.workers) != 0) break;
        pthread_detach(thread);
        pool.workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void ork_parallel(ork_job job, void *argument, int threads) {
    if (threads > ORK_MAX_THREADS) threads = ORK_MAX_THREADS;
    if (threads <= 1) {
        ork_team alone = {.threads = 1};
        job(argument, &alone, 0);
        return;
    }
    pthread_mutex_lock(&pool.calls);
    hire(threads - 1);
    pool.team.threads = threads <= pool.workers + 1 ? threads : pool.workers + 1;
    atomic_store(&pool.team.arrived, 0);
    pool.job = job;
    pool.argument = argument;
    atomic_store(&pool.running, (uint32_t)pool.workers);
    atomic_fetch_add(&pool.call, 1);
    wake_all(&pool.call);
    job(argument, &pool.team, 0);
    uint32_t left;
    while ((left = atomic_load_explicit(&pool.running, memory_order_acquire)) != 0) await_change(&pool.running, left);
    pthread_mutex_unlock(&pool.calls);
}

int ork_pool_threads(void) { return pool.workers + 1; }

int ork_available_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int count = CPU_COUNT(&set);
    return count < 1 ? 1 : count > ORK_MAX_THREADS ? ORK_MAX_THREADS : count;
}
