/* An operand in the dma-heap, imported; a program that has closed the heap, and one that forked. */
#include "npu.h"

#include <sys/wait.h>

int main(void) {
    int npu = open_npu(), heap = open("/dev/dma_heap/system", O_RDWR);
    CHECK(heap >= 0);
    struct heap_alloc allocation = {.len = ROWS * DEPTH, .fd_flags = O_RDWR | O_CLOEXEC};
    CHECK(!ioctl(heap, HEAP_ALLOC, &allocation));
    close(heap);
    int buffer = (int)allocation.fd;
    int8_t *a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, buffer, 0);
    CHECK(a != MAP_FAILED);
    struct prime prime = {.fd = buffer};
    CHECK(!ioctl(npu, FD_TO_HANDLE, &prime));
    struct mem_create about = {.handle = prime.handle};
    CHECK(!ioctl(npu, CREATE, &about));
    for (int at = 0; at < ROWS * DEPTH; at++)
        a[at] = (int8_t)(at * 3 % 200 - 100);
    uint64_t end_of_write = 2 | 4;
    CHECK(!ioctl(buffer, DMA_BUF_SYNC, &end_of_write));
    printf("%d wrong\n", run(npu, a, about.dma_addr));
    fflush(stdout);
    if (!fork())
        _exit(run(npu, a, about.dma_addr));
    int status;
    wait(&status);
    printf("%d wrong in the child\n", WEXITSTATUS(status));
    CHECK(ioctl(buffer, HEAP_ALLOC, &allocation) == -1 && errno == ENOTTY);
    uint32_t handle[2] = {prime.handle, 0};
    CHECK(!ioctl(npu, GEM_CLOSE, handle));
    close(buffer);
    return 0;
}
