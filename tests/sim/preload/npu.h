/* The rknpu ABI as a program outside the project would declare it, and one register program. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

struct mem_create {
    uint32_t handle, flags;
    uint64_t size, obj_addr, dma_addr, sram_size;
    int32_t domain;
    uint32_t core_mask;
};
struct mem_map {
    uint32_t handle, reserved;
    uint64_t offset;
};
struct mem_sync {
    uint32_t flags, reserved;
    uint64_t obj_addr, offset, size;
};
struct action {
    uint32_t code, value;
};
struct task {
    uint32_t flags, op_idx, enable_mask, int_mask, int_clear, int_status, amount, offset;
    uint64_t address;
} __attribute__((packed));
struct submit {
    uint32_t flags, timeout, task_start, task_number, task_counter;
    int32_t priority;
    uint64_t task_obj_addr;
    uint32_t domain, reserved;
    uint64_t task_base_addr;
    int64_t hw_elapse_time;
    uint32_t core_mask;
    int32_t fence_fd;
    struct {
        uint32_t start, number;
    } subcore[5];
};
struct version {
    int major, minor, patch;
    size_t name_len;
    char *name;
    size_t date_len;
    char *date;
    size_t desc_len;
    char *desc;
};
struct heap_alloc {
    uint64_t len;
    uint32_t fd, fd_flags;
    uint64_t heap_flags;
};
struct prime {
    uint32_t handle, flags;
    int32_t fd;
};

#define VERSION _IOWR('d', 0x00, struct version)
#define GEM_CLOSE 0x40086409
#define FD_TO_HANDLE _IOWR('d', 0x2E, struct prime)
#define ACTION _IOWR('d', 0x40, struct action)
#define SUBMIT _IOWR('d', 0x41, struct submit)
#define CREATE _IOWR('d', 0x42, struct mem_create)
#define MAP _IOWR('d', 0x43, struct mem_map)
#define SYNC _IOWR('d', 0x45, struct mem_sync)
#define HEAP_ALLOC _IOWR('H', 0x00, struct heap_alloc)
#define DMA_BUF_SYNC _IOW('b', 0x00, uint64_t)

/* int8 [4][32] times [32][32] to int32, row-major; the addresses of A, weights and C are put in by the caller. */
static uint64_t words[] = {
    0x0201000000b11040, 0x0201000000001104, 0x0201000000001100, 0x020120000000100c,
    0x10010000000e4004, 0x020120000000100c, 0x0201000000501010, 0x0201000000091014,
    0x0201000100041020, 0x0201001f00201024, 0x0201000000011028, 0x020100000004102c,
    0x0201000004001030, 0x0201000000201034, 0x0201010100201038, 0x0201000000b11040,
    0x0201000000011044, 0x02010000000b104c, 0x0201000100001050, 0x0201000100001054,
    0x0201000100001058, 0x020100010000105c, 0x0201000000001060, 0x0201000000001064,
    0x0201000000001068, 0x0201000000001070, 0x0201000000001074, 0x0201000f000f1078,
    0x020100000002107c, 0x0201000000001080, 0x0201000100041084, 0x0201000000201088,
    0x0201000000001100, 0x0201000000001104, 0x0201000000001110, 0x0201000000001140,
    0x0201000000001144, 0x0201000000001148, 0x020100000000114c, 0x0201000000001150,
    0x0201000000001154, 0x0201000000001158, 0x020100000000115c, 0x0201000000001160,
    0x0201000000001164, 0x0201000000001168, 0x020100000000116c, 0x0201000000001170,
    0x0201000000001174, 0x0201000000001178, 0x020100000000117c, 0x0201000000001180,
    0x0201000000001184, 0x0801000000013010, 0x0801000300003014, 0x08010000001f3018,
    0x080100000000301c, 0x0801000000003030, 0x1001000001e4400c, 0x1001800000004010,
    0x1001000000004014, 0x1001000000004020, 0x1001000000104024, 0x1001000000004030,
    0x1001000000034034, 0x1001000700074038, 0x1001001f001f403c, 0x1001000000534040,
    0x1001000000004044, 0x1001000000004048, 0x100100000000404c, 0x1001000007fc4050,
    0x1001000000004054, 0x10010000001f4058, 0x100100030000405c, 0x1001000000534060,
    0x1001000000004064, 0x1001000000004068, 0x100100000000406c, 0x1001000003834070,
    0x1001000000004074, 0x1001000000014078, 0x100100000000407c, 0x1001000000004080,
    0x1001000000014084, 0x1001000000004088, 0x1001000000004090, 0x1001000000004094,
    0x1001000000004098, 0x100100000000409c, 0x10010000000040a0, 0x10010000000040a4,
    0x10010000000040a8, 0x10010000000040ac, 0x10010000008040c0, 0x10010000000040c4,
    0x1001000000004100, 0x1001000000004104, 0x1001000000004108, 0x100100000000410c,
    0x1001000000004110, 0x1001000000004114, 0x1001000000004118, 0x100100000000411c,
    0x1001000000004120, 0x1001000000004124, 0x1001000000004128, 0x100100000000412c,
    0x0000000000000000, 0x0101000000000014, 0x0041000000000000, 0x00810000000d0008,
};
enum { BODY = 108, ROWS = 4, DEPTH = 32, COLUMNS = 32 };

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, strerror(errno));                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

struct memory {
    struct mem_create about;
    void *bytes;
};

__attribute__((unused)) static int open_npu(void) {
    for (int card = 0; card < 8; card++) {
        char path[32], name[32] = "";
        snprintf(path, sizeof path, "/dev/dri/card%d", card);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        struct version version = {.name = name, .name_len = sizeof name - 1};
        if (fd < 0)
            continue;
        if (!ioctl(fd, VERSION, &version) && !strcmp(name, "rknpu"))
            return fd;
        close(fd);
    }
    fprintf(stderr, "no rknpu card\n");
    exit(2);
}

static struct memory allocate(int npu, size_t size, uint32_t flags) {
    struct memory memory = {.about = {.flags = flags, .size = size}};
    CHECK(!ioctl(npu, CREATE, &memory.about));
    struct mem_map map = {.handle = memory.about.handle};
    CHECK(!ioctl(npu, MAP, &map));
    memory.bytes = mmap(NULL, memory.about.size, PROT_READ | PROT_WRITE, MAP_SHARED, npu, (off_t)map.offset);
    CHECK(memory.bytes != MAP_FAILED);
    return memory;
}

static void sync_memory(int npu, const struct memory *memory, uint32_t flags) {
    struct mem_sync sync = {.flags = flags, .obj_addr = memory->about.obj_addr, .size = memory->about.size};
    CHECK(!ioctl(npu, SYNC, &sync));
}

static void address(uint64_t *program, uint16_t from, uint64_t value) {
    for (int at = 0; at < BODY; at++)
        if ((program[at] & 0xFFFF) == from)
            program[at] = (program[at] & 0xFFFF00000000FFFFull) | value << 16;
}

/* Runs the program over three addresses and counts wrong results. */
static int run(int npu, const int8_t *a, uint64_t a_address) {
    struct memory b = allocate(npu, DEPTH * COLUMNS, 0x403), c = allocate(npu, 4 * ROWS * COLUMNS, 0x403);
    struct memory commands = allocate(npu, sizeof words, 0x403), tasks = allocate(npu, sizeof(struct task), 0x40b);
    int8_t *weights = b.bytes;
    for (int at = 0; at < DEPTH * COLUMNS; at++)
        weights[at] = (int8_t)(at * 7 % 251 - 125);
    memcpy(commands.bytes, words, sizeof words);
    address(commands.bytes, 0x1070, a_address);
    address(commands.bytes, 0x1110, b.about.dma_addr);
    address(commands.bytes, 0x4020, c.about.dma_addr);
    *(struct task *)tasks.bytes = (struct task){.enable_mask = 0xd, .int_mask = 0x300, .int_clear = 0x1ffff,
                                                .amount = BODY, .address = commands.about.dma_addr};
    sync_memory(npu, &b, 1);
    sync_memory(npu, &commands, 1);
    sync_memory(npu, &c, 1);
    struct submit submit = {.flags = 5, .timeout = 6000, .task_number = 1, .task_obj_addr = tasks.about.obj_addr,
                            .core_mask = 1, .fence_fd = -1};
    submit.subcore[0].number = 1;
    CHECK(!ioctl(npu, SUBMIT, &submit));
    CHECK(submit.task_counter == 1 && submit.hw_elapse_time > 0);
    sync_memory(npu, &c, 2);
    int wrong = 0;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            int32_t sum = 0;
            for (int k = 0; k < DEPTH; k++)
                sum += a[row * DEPTH + k] * weights[column * DEPTH + k];
            wrong += ((int32_t *)c.bytes)[row * COLUMNS + column] != sum;
        }
    munmap(c.bytes, c.about.size);
    return wrong;
}
