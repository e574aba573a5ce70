/* Finds the card, asks who it is, multiplies; repeats its input and ends with the code it is given. */
#include "npu.h"

int main(int count, char **arguments) {
    char line[64] = "", date[16] = "";
    int npu = open_npu();
    struct version version = {.date = date, .date_len = sizeof date - 1};
    CHECK(!ioctl(npu, VERSION, &version));
    struct action action = {.code = 1};
    CHECK(!ioctl(npu, ACTION, &action));
    struct memory a = allocate(npu, ROWS * DEPTH, 0x403);
    for (int at = 0; at < ROWS * DEPTH; at++)
        ((int8_t *)a.bytes)[at] = (int8_t)(at * 5 % 255 - 127);
    sync_memory(npu, &a, 1);
    printf("driver %u of %s, %d wrong\n", action.value, date, run(npu, a.bytes, a.about.dma_addr));
    if (fgets(line, sizeof line, stdin))
        printf("read %s", line);
    struct action unknown = {.code = 99};
    CHECK(ioctl(npu, ACTION, &unknown) == -1 && errno == EINVAL);
    CHECK(ioctl(npu, 0xC0086455, &unknown) == -1 && errno == ENOTTY);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, npu, 0x7000) == MAP_FAILED && errno == EINVAL);
    FILE *load = fopen("/sys/kernel/debug/rknpu/version", "r");
    if (load && fgets(line, sizeof line, load))
        printf("%s", line);
    close(npu);
    CHECK(ioctl(npu, ACTION, &action) == -1 && errno == EBADF);
    return count > 1 ? atoi(arguments[1]) : 0;
}
