/* As runtimes do it: nodes found by what they are, copies of descriptors, several threads, a child, the heap. */
#include "npu.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

enum { THREADS = 4, ROUNDS = 8 };

static int shared;

/* A render node whose driver says rknpu; found with access and stat, opened with openat, kept as a copy. */
static int find_render_node(void) {
    for (int minor = 128; minor < 136; minor++) {
        char path[32], name[32] = "";
        struct stat about;
        snprintf(path, sizeof path, "/dev/dri/renderD%d", minor);
        if (access(path, R_OK | W_OK)) {
            CHECK(errno == ENOENT);
            continue;
        }
        CHECK(!stat(path, &about) && S_ISCHR(about.st_mode) && minor(about.st_rdev) == (unsigned)minor);
        int fd = openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC);
        CHECK(fd >= 0);
        struct version version = {.name = name, .name_len = sizeof name - 1};
        CHECK(!ioctl(fd, VERSION, &version));
        if (strcmp(name, "rknpu")) {
            close(fd);
            continue;
        }
        CHECK(!fstat(fd, &about) && S_ISCHR(about.st_mode) && major(about.st_rdev) == 226);
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 64);
        CHECK(copy >= 64);
        close(fd);
        return copy;
    }
    return -1;
}

static void *work(void *argument) {
    int8_t *operand = NULL;
    intptr_t wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct memory a = allocate(shared, ROWS * DEPTH, 0x403);
        operand = a.bytes;
        for (int at = 0; at < ROWS * DEPTH; at++)
            operand[at] = (int8_t)(at * (3 + round + (intptr_t)argument) % 251 - 125);
        sync_memory(shared, &a, 1);
        wrong += run(shared, operand, a.about.dma_addr);
        munmap(a.bytes, a.about.size);
        uint32_t handle[2] = {a.about.handle, 0};
        CHECK(!ioctl(shared, GEM_CLOSE, handle));
    }
    return (void *)wrong;
}

static int from_the_heap(void) {
    int heap = open("/dev/dma_heap/system-uncached", O_RDWR | O_CLOEXEC);
    if (heap < 0)
        heap = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC);
    CHECK(heap >= 0);
    struct heap_alloc allocation = {.len = ROWS * DEPTH, .fd_flags = O_RDWR | O_CLOEXEC};
    CHECK(!ioctl(heap, HEAP_ALLOC, &allocation));
    int buffer = dup((int)allocation.fd);
    CHECK(buffer >= 0);
    close((int)allocation.fd);
    close(heap);
    int8_t *a = mmap64(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, buffer, 0);
    CHECK(a != MAP_FAILED);
    uint64_t begin = 2, end = 2 | 4;
    CHECK(!ioctl(buffer, DMA_BUF_SYNC, &begin));
    for (int at = 0; at < ROWS * DEPTH; at++)
        a[at] = (int8_t)(at % 100);
    CHECK(!ioctl(buffer, DMA_BUF_SYNC, &end));
    struct prime prime = {.fd = buffer};
    CHECK(!ioctl(shared, FD_TO_HANDLE, &prime));
    close(buffer);
    struct mem_create about = {.handle = prime.handle};
    CHECK(!ioctl(shared, CREATE, &about));
    return run(shared, a, about.dma_addr);
}

int main(void) {
    shared = find_render_node();
    CHECK(shared >= 0);
    pthread_t threads[THREADS];
    intptr_t wrong = 0;
    for (intptr_t at = 0; at < THREADS; at++)
        CHECK(!pthread_create(&threads[at], NULL, work, (void *)at));
    for (int at = 0; at < THREADS; at++) {
        void *one;
        pthread_join(threads[at], &one);
        wrong += (intptr_t)one;
    }
    printf("%d wrong in threads\n", (int)wrong);
    printf("%d wrong from the heap\n", from_the_heap());
    fflush(stdout);
    int low = dup2(shared, 9);
    CHECK(low == 9);
    if (!fork()) {
        close(shared);
        shared = low;
        _exit((int)(intptr_t)work((void *)7));
    }
    int status;
    wait(&status);
    printf("%d wrong in the child\n", WEXITSTATUS(status));
    struct prime no_buffer = {.fd = 0};
    CHECK(ioctl(shared, FD_TO_HANDLE, &no_buffer) == -1);
    close(shared);
    struct action action = {.code = 1};
    CHECK(!ioctl(low, ACTION, &action) && action.value == 908);
    close(low);
    CHECK(ioctl(low, ACTION, &action) == -1 && errno == EBADF);
    return 0;
}
