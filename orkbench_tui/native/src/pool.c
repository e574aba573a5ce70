/* A pool that spins for some microseconds and then parks on a futex.
 *
 * Two pools that both spin destroy each other on a small machine, so the process has this one only.
 * Steps of a plan follow each other within microseconds: parking at once would cost more than the
 * step. Between plans (sampling, printing, waiting for the NPU) threads must not burn a core.
 *
 * Where other programs want the cores too, a thread is often away for milliseconds. So nobody is
 * waited for until it has come: the gate counts who is inside, and closes when the caller is done. */
#define _GNU_SOURCE
#include "pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/pool.h"

#define SPINS 1500
#define OPEN 0x80000000u

static struct {
    pthread_mutex_t calls; /* one parallel call at a time */
    int workers;
    _Atomic uint32_t call;     /* changes with every call; idle workers wait on it */
    _Atomic uint32_t gate;     /* OPEN while a call may be joined, plus the number of workers inside */
    _Atomic uint32_t sleepers; /* threads parked on any word */
    uint32_t hired_at[ORK_MAX_THREADS]; /* the call each worker need not answer any more */
    int threads;
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
    atomic_fetch_add(&pool.sleepers, 1);
    if (atomic_load(word) == seen) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&pool.sleepers, 1);
}

void ork_wake(_Atomic uint32_t *word) {
    /* Both sides are sequentially consistent: either this thread sees the sleeper, or the sleeper (or
     * the kernel for it) sees the new word. */
    if (atomic_load(&pool.sleepers) != 0) syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void ork_await(_Atomic uint32_t *word, uint32_t wanted) {
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(word, memory_order_acquire) == wanted) return;
        relax();
    }
    for (uint32_t seen; (seen = atomic_load(word)) != wanted;) park(word, seen);
}

static void await_call(uint32_t seen) {
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(&pool.call, memory_order_acquire) != seen) return;
        relax();
    }
    while (atomic_load(&pool.call) == seen) park(&pool.call, seen);
}

/* Whether this worker is now inside an open call; it then has to leave. */
static int enter(void) {
    uint32_t gate = atomic_load(&pool.gate);
    while (gate & OPEN)
        if (atomic_compare_exchange_weak(&pool.gate, &gate, gate + 1)) return 1;
    return 0;
}

static void leave(void) {
    /* Only a caller that has closed the gate waits, and for an empty room. */
    if (atomic_fetch_sub(&pool.gate, 1) == 1) ork_wake(&pool.gate);
}

static void *worker(void *index) {
    int thread = (int)(intptr_t)index + 1;
    uint32_t seen = pool.hired_at[thread - 1];
    for (;;) {
        await_call(seen);
        seen = atomic_load(&pool.call);
        if (!enter()) continue;
        /* Inside, the fields are those of one call: the next cannot begin. */
        seen = atomic_load(&pool.call);
        if (thread < pool.threads) pool.job(pool.argument, thread);
        leave();
    }
    return NULL;
}

static void forget_workers(void) {
    /* The threads do not exist in a forked child. */
    pool.workers = 0;
    atomic_store(&pool.gate, 0);
    atomic_store(&pool.sleepers, 0);
    pthread_mutex_init(&pool.calls, NULL);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_workers); }

static void hire(int wanted) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (pool.workers >= wanted) return;
    pthread_once(&once, watch_forks);
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
        job(argument, 0);
        return;
    }
    pthread_mutex_lock(&pool.calls);
    hire(threads - 1);
    pool.threads = threads;
    pool.job = job;
    pool.argument = argument;
    atomic_store(&pool.gate, OPEN);
    atomic_fetch_add(&pool.call, 1);
    ork_wake(&pool.call);
    job(argument, 0);
    atomic_fetch_and(&pool.gate, ~OPEN);
    ork_await(&pool.gate, 0);
    pthread_mutex_unlock(&pool.calls);
}

int ork_pool_threads(void) { return pool.workers + 1; }

int ork_available_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int count = CPU_COUNT(&set);
    return count < 1 ? 1 : count > ORK_MAX_THREADS ? ORK_MAX_THREADS : count;
}
