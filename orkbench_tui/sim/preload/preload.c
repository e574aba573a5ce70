/* Lets an unmodified program use the simulated board: opens of the NPU's nodes, of the dma-heap and of the
 * driver's files go to the board's socket, and so do ioctl and mmap of what was opened. Everything else is
 * left to the C library.
 *
 * ORK_SIM_SOCKET   the board's socket
 * ORK_SIM_PROTOCOL the wire's version
 * ORK_SIM_DATE     the driver's date
 * ORK_SIM_NODES    the NPU's nodes, separated by colons
 * ORK_SIM_RECORD   where the board records what comes, if set
 *
 * A descriptor the program sees is an empty memfd, so that its number is the kernel's; calls go over
 * connections of their own, because a submit blocks the one it came on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

enum { HELLO = 1, IOCTL = 3, MMAP = 4, READ = 5, HEAP_ALLOCATE = 11, HEAP_SYNC = 12, HEAP_RELEASE = 13 };
enum { FREE, NPU, DISPLAY, HEAP };
enum { MAX_NODES = 64, MAX_COPIES = 256, MAX_SOCKETS = 32, MAX_BUFFERS = 4096, TOKEN = 64 };
enum { DRM_MAJOR = 226, HEAP_MAJOR = 252 };

#define DRM_IOCTL_VERSION 0xC0406400u
#define DRM_IOCTL_PRIME_FD_TO_HANDLE_NR 0x2Eu
#define DMA_HEAP_IOCTL_ALLOC 0xC0184800u
#define DMA_BUF_IOCTL_SYNC 0x40086200u

struct request {
    uint32_t length, operation;
    int64_t a, b;
};

struct reply {
    uint32_t length;
    int32_t error;
    int64_t value;
};

struct drm_version {
    int32_t major, minor, patch, pad;
    uint64_t name_length, name, date_length, date, description_length, description;
};

struct heap_allocation {
    uint64_t length;
    uint32_t fd, fd_flags;
    uint64_t heap_flags;
};

/* One open file. It outlives the program's close while buffers of its heap are about. */
struct node {
    int kind, fd, users;
    pid_t pid;
    dev_t device;
    char token[TOKEN];
    int sockets[MAX_SOCKETS];
    int busy[MAX_SOCKETS];
    int count;
};

/* Another descriptor of a node: dup and its kin. */
struct copy {
    int fd;
    struct node *node;
};

struct buffer {
    int fd;
    ino_t inode;
    struct node *heap;
};

static struct node nodes[MAX_NODES];
static struct copy copies[MAX_COPIES];
static struct buffer buffers[MAX_BUFFERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int (*real_openat)(int, const char *, int, ...);
static int (*real_ioctl)(int, unsigned long, ...);
static void *(*real_mmap)(void *, size_t, int, int, int, off_t);
static int (*real_close)(int);
static int (*real_dup)(int);
static int (*real_dup3)(int, int, int);
static int (*real_fcntl)(int, int, ...);
static int (*real_faccessat)(int, const char *, int, int);
static FILE *(*real_fopen)(const char *, const char *);

__attribute__((constructor)) static void find_real(void) {
    if (real_close)
        return;
    real_openat = dlsym(RTLD_NEXT, "openat");
    real_ioctl = dlsym(RTLD_NEXT, "ioctl");
    real_mmap = dlsym(RTLD_NEXT, "mmap");
    real_fopen = dlsym(RTLD_NEXT, "fopen");
    real_dup = dlsym(RTLD_NEXT, "dup");
    real_dup3 = dlsym(RTLD_NEXT, "dup3");
    real_fcntl = dlsym(RTLD_NEXT, "fcntl");
    real_faccessat = dlsym(RTLD_NEXT, "faccessat");
    real_close = dlsym(RTLD_NEXT, "close");
}

/* ---- the wire ------------------------------------------------------------------------------- */

static int put(int fd, const void *data, size_t size) {
    for (const char *at = data; size;) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return -1;
        at += sent;
        size -= (size_t)sent;
    }
    return 0;
}

static int get(int fd, void *data, size_t size) {
    for (char *at = data; size;) {
        ssize_t got = recv(fd, at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        at += got;
        size -= (size_t)got;
    }
    return 0;
}

/* The header of a reply, with the descriptor it carries or -1. */
static int get_header(int fd, struct reply *header, int *passed) {
    char space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {header, sizeof *header};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    ssize_t got;
    do
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return -1;
    *passed = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            memcpy(passed, CMSG_DATA(c), sizeof(int));
    return get(fd, (char *)header + got, sizeof *header - (size_t)got);
}

/* One call. The reply's payload goes to `back`, at most `room` bytes of it. Returns the value or -errno. */
static int64_t call(int fd, int operation, int64_t a, int64_t b, const void *payload, size_t size, void *back,
                    size_t room, size_t *got, int *passed) {
    struct request request = {(uint32_t)size, (uint32_t)operation, a, b};
    struct reply reply;
    int carried = -1;
    if (put(fd, &request, sizeof request) || put(fd, payload, size) || get_header(fd, &reply, &carried))
        return -ENODEV;
    size_t kept = reply.length < room ? reply.length : room;
    if (get(fd, back, kept))
        return -ENODEV;
    for (size_t left = reply.length - kept; left;) {
        char skipped[4096];
        size_t part = left < sizeof skipped ? left : sizeof skipped;
        if (get(fd, skipped, part))
            return -ENODEV;
        left -= part;
    }
    if (got)
        *got = kept;
    if (passed)
        *passed = carried;
    else if (carried >= 0)
        real_close(carried);
    return reply.error ? -reply.error : reply.value;
}

/* A new connection for a role; `token` names the open file and is filled for a new one. Returns -errno. */
static int connect_board(const char *role, char *token) {
    const char *path = getenv("ORK_SIM_SOCKET"), *protocol = getenv("ORK_SIM_PROTOCOL");
    const char *record = getenv("ORK_SIM_RECORD");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || !protocol || strlen(path) >= sizeof address.sun_path)
        return -ENODEV;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    char hello[1024 + TOKEN];
    int size = snprintf(hello, sizeof hello, "{\"protocol\":%s,\"version\":\"\",\"role\":\"%s\",\"token\":\"%s\"%s%s%s}",
                        protocol, role, token, record ? ",\"record\":\"" : "", record ? record : "", record ? "\"" : "");
    size_t got = 0;
    int64_t value = -ENODEV;
    if (size > 0 && (size_t)size < sizeof hello && !connect(fd, (struct sockaddr *)&address, sizeof address))
        value = call(fd, HELLO, 0, 0, hello, (size_t)size, token, TOKEN - 1, &got, NULL);
    if (value < 0) {
        token[0] = 0;
        real_close(fd);
        return (int)value;
    }
    token[got] = 0;
    return fd;
}

/* ---- open files ----------------------------------------------------------------------------- */

static const char *role_of(const struct node *node) { return node->kind == HEAP ? "heap" : "device"; }

/* A connection nobody uses; its place in the node, or -errno. */
static int take(struct node *node) {
    pthread_mutex_lock(&lock);
    if (node->pid != getpid()) {
        /* After a fork the connections are the parent's. */
        for (int at = 0; at < node->count; at++)
            real_close(node->sockets[at]);
        memset(node->busy, 0, sizeof node->busy);
        node->count = 0;
        node->pid = getpid();
    }
    int at = 0;
    while (at < node->count && node->busy[at])
        at++;
    if (at == MAX_SOCKETS) {
        pthread_mutex_unlock(&lock);
        return -EBUSY;
    }
    if (at == node->count) {
        int fd = connect_board(role_of(node), node->token);
        if (fd < 0) {
            pthread_mutex_unlock(&lock);
            return fd;
        }
        node->sockets[at] = fd;
        node->count++;
    }
    node->busy[at] = 1;
    pthread_mutex_unlock(&lock);
    return at;
}

static void give_back(struct node *node, int at) {
    pthread_mutex_lock(&lock);
    node->busy[at] = 0;
    pthread_mutex_unlock(&lock);
}

static int64_t ask(struct node *node, int operation, int64_t a, int64_t b, const void *payload, size_t size, void *back,
                   size_t room, int *passed) {
    int at = take(node);
    if (at < 0)
        return at;
    int64_t value = call(node->sockets[at], operation, a, b, payload, size, back, room, NULL, passed);
    give_back(node, at);
    return value;
}

/* With the lock held: the last user of an open file has gone. */
static void drop(struct node *node) {
    if (--node->users > 0)
        return;
    for (int at = 0; at < node->count; at++)
        real_close(node->sockets[at]);
    memset(node, 0, sizeof *node);
}

static struct node *find_node(int fd) {
    struct node *found = NULL;
    pthread_mutex_lock(&lock);
    for (int at = 0; at < MAX_NODES; at++)
        if (nodes[at].kind != FREE && nodes[at].fd == fd)
            found = &nodes[at];
    for (int at = 0; at < MAX_COPIES && !found; at++)
        if (copies[at].node && copies[at].fd == fd)
            found = copies[at].node;
    pthread_mutex_unlock(&lock);
    return found;
}

static int is_npu_node(const char *path) {
    const char *at = getenv("ORK_SIM_NODES");
    for (size_t size = strlen(path); at && *at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL)
        if (!strncmp(at, path, size) && (at[size] == ':' || !at[size]))
            return 1;
    return 0;
}

static int is_board_file(const char *path) {
    static const char *const folders[] = {"/proc/device-tree/", "/sys/firmware/devicetree/", "/sys/kernel/debug/rknpu/",
                                          "/sys/class/devfreq/", "/sys/module/rknpu/", "/proc/rknpu/"};
    for (size_t at = 0; at < sizeof folders / sizeof *folders; at++)
        if (!strncmp(path, folders[at], strlen(folders[at])))
            return 1;
    return 0;
}

/* The number of the device a node of this name is. */
static dev_t device_of(int kind, const char *path) {
    const char *digits = path + strlen(path);
    while (digits > path && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    return kind == HEAP ? makedev(HEAP_MAJOR, 0) : makedev(DRM_MAJOR, (unsigned)atoi(digits));
}

static int open_node(int kind, int flags, const char *path) {
    pthread_mutex_lock(&lock);
    struct node *node = NULL;
    for (int at = 0; at < MAX_NODES && !node; at++)
        if (nodes[at].kind == FREE)
            node = &nodes[at];
    int fd = -1, error = EMFILE;
    if (node) {
        memset(node, 0, sizeof *node);
        node->kind = kind;
        node->pid = getpid();
        node->users = 1;
        node->device = device_of(kind, path);
        fd = memfd_create("ork-sim-node", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
        error = errno;
        if (fd >= 0 && kind != DISPLAY) {
            int connection = connect_board(role_of(node), node->token);
            if (connection < 0) {
                error = -connection;
                real_close(fd);
                fd = -1;
            } else {
                node->sockets[node->count++] = connection;
            }
        }
        node->fd = fd;
        if (fd < 0)
            node->kind = FREE;
    }
    pthread_mutex_unlock(&lock);
    if (fd < 0)
        errno = error;
    return fd;
}

/* The bytes of a board's file in a memfd. */
static int open_file(const char *path) {
    char token[TOKEN] = "";
    int connection = connect_board("files", token);
    if (connection < 0) {
        errno = -connection;
        return -1;
    }
    static const size_t room = 1 << 20;
    unsigned char *data = malloc(room);
    size_t got = 0;
    int64_t value = data ? call(connection, READ, 0, 0, path, strlen(path), data, room, &got, NULL) : -ENOMEM;
    real_close(connection);
    int fd = -1;
    if (value >= 0 && got >= 11) {
        uint16_t name;
        uint32_t size;
        memcpy(&name, data + 1, sizeof name);
        memcpy(&size, data + 3, sizeof size);
        errno = data[0] == 2 ? EACCES : data[0] == 3 ? EISDIR : ENOENT;
        if (data[0] == 0 && (size_t)11 + name + size <= got) {
            fd = memfd_create("ork-sim-file", MFD_CLOEXEC);
            if (fd >= 0 && write(fd, data + 11 + name, size) == (ssize_t)size)
                lseek(fd, 0, SEEK_SET);
        }
    } else {
        errno = value < 0 ? (int)-value : EPROTO;
    }
    free(data);
    return fd;
}

static int is_drm(const char *path) { return path && getenv("ORK_SIM_SOCKET") && !strncmp(path, "/dev/dri/", 9); }

/* What kind of node the board has under a path, FREE for none. */
static int kind_of(const char *path) {
    if (!path || !getenv("ORK_SIM_SOCKET"))
        return FREE;
    if (is_npu_node(path))
        return NPU;
    if (!strncmp(path, "/dev/dma_heap/", 14))
        return HEAP;
    return !strcmp(path, "/dev/dri/card0") || !strcmp(path, "/dev/dri/renderD128") ? DISPLAY : FREE;
}

/* Whether the board answers for a path; *fd is then what open returns. */
static int redirected(const char *path, int flags, int *fd) {
    if (!path || !getenv("ORK_SIM_SOCKET"))
        return 0;
    int kind = kind_of(path);
    if (kind != FREE)
        *fd = open_node(kind, flags, path);
    else if (is_drm(path)) {
        *fd = -1;
        errno = ENOENT;
    } else if (is_board_file(path) && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_DIRECTORY))
        *fd = open_file(path);
    else
        return 0;
    return 1;
}

#define OPENS(name, ...)                                                                                               \
    int name(__VA_ARGS__) {                                                                                            \
        find_real();                                                                                                   \
        int fd;                                                                                                        \
        unsigned mode = 0;                                                                                             \
        if (redirected(path, flags, &fd))                                                                              \
            return fd;                                                                                                 \
        if (flags & (O_CREAT | __O_TMPFILE)) {                                                                         \
            va_list rest;                                                                                              \
            va_start(rest, flags);                                                                                     \
            mode = va_arg(rest, unsigned);                                                                             \
            va_end(rest);                                                                                              \
        }                                                                                                              \
        return real_openat(folder, path, flags, mode);                                                                 \
    }

static const int folder = AT_FDCWD;
OPENS(open, const char *path, int flags, ...)
OPENS(open64, const char *path, int flags, ...)
OPENS(openat, int folder, const char *path, int flags, ...)
OPENS(openat64, int folder, const char *path, int flags, ...)

int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open(path, flags); }
int __openat_2(int at, const char *path, int flags) { return openat(at, path, flags); }
int __openat64_2(int at, const char *path, int flags) { return openat(at, path, flags); }

FILE *fopen(const char *path, const char *mode) {
    find_real();
    int fd;
    if (mode && mode[0] == 'r' && !strchr(mode, '+') && path && is_board_file(path) && redirected(path, O_RDONLY, &fd))
        return fd < 0 ? NULL : fdopen(fd, "r");
    return real_fopen(path, mode);
}

FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }

static int refuse(int64_t value) {
    errno = (int)-value;
    return -1;
}

/* ---- what a path or a descriptor is ----------------------------------------------------------- */

/* The C library's own stat, whatever name its version gives it. */
static int plain_stat(int folder, const char *path, struct stat *about, int flags) {
    return (int)syscall(SYS_newfstatat, folder, path, about, flags);
}

static int device_stat(dev_t device, struct stat *about) {
    memset(about, 0, sizeof *about);
    about->st_mode = S_IFCHR | 0660;
    about->st_nlink = 1;
    about->st_rdev = device;
    return 0;
}

static int is_empty(const char *path) { return path && !*path; }

static int path_stat(int folder, const char *path, struct stat *about, int flags) {
    int kind = kind_of(path);
    if (kind != FREE)
        return device_stat(device_of(kind, path), about);
    return plain_stat(folder, path, about, flags);
}

static int descriptor_stat(int fd, struct stat *about) {
    struct node *node = find_node(fd);
    return node ? device_stat(node->device, about) : plain_stat(fd, "", about, AT_EMPTY_PATH);
}

int stat(const char *path, struct stat *about) { return path_stat(AT_FDCWD, path, about, 0); }
int lstat(const char *path, struct stat *about) { return path_stat(AT_FDCWD, path, about, AT_SYMLINK_NOFOLLOW); }
int fstat(int fd, struct stat *about) { return descriptor_stat(fd, about); }
int fstatat(int at, const char *path, struct stat *about, int flags) {
    if (flags & AT_EMPTY_PATH && is_empty(path))
        return descriptor_stat(at, about);
    return path_stat(at, path, about, flags);
}
int __xstat(int version, const char *path, struct stat *about) { return version < 0 ? -1 : stat(path, about); }
int __lxstat(int version, const char *path, struct stat *about) { return version < 0 ? -1 : lstat(path, about); }
int __fxstat(int version, int fd, struct stat *about) { return version < 0 ? -1 : fstat(fd, about); }
/* On the 64-bit systems this is for the 64-bit forms are the same. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "a 64-bit system");
int stat64(const char *path, struct stat64 *about) { return stat(path, (struct stat *)about); }
int lstat64(const char *path, struct stat64 *about) { return lstat(path, (struct stat *)about); }
int fstat64(int fd, struct stat64 *about) { return fstat(fd, (struct stat *)about); }
int fstatat64(int at, const char *path, struct stat64 *about, int flags) {
    return fstatat(at, path, (struct stat *)about, flags);
}

/* Whoever may open a node may use it: opening it is the test. */
int faccessat(int at, const char *path, int mode, int flags) {
    find_real();
    int fd;
    if (kind_of(path) == FREE && !is_drm(path))
        return real_faccessat(at, path, mode, flags);
    if (!redirected(path, O_RDWR | O_CLOEXEC, &fd) || fd < 0)
        return -1;
    close(fd);
    return 0;
}

int access(const char *path, int mode) { return faccessat(AT_FDCWD, path, mode, 0); }

/* ---- copies of descriptors -------------------------------------------------------------------- */

/* With the lock held: another descriptor of a node or of a heap's buffer. 0 when there is no room. */
static int add_copy(int old, int fd, struct node *node) {
    for (int at = 0; at < MAX_BUFFERS && !node; at++)
        if (buffers[at].heap && buffers[at].fd == old) {
            for (int free = 0; free < MAX_BUFFERS; free++)
                if (!buffers[free].heap) {
                    buffers[free] = (struct buffer){fd, buffers[at].inode, buffers[at].heap};
                    buffers[at].heap->users++;
                    return 1;
                }
            return 0;
        }
    if (!node)
        return 1;
    for (int at = 0; at < MAX_COPIES; at++)
        if (!copies[at].node) {
            copies[at] = (struct copy){fd, node};
            node->users++;
            return 1;
        }
    return 0;
}

/* `fd` is now a duplicate of `old`; its number, or -1 where it cannot be kept. */
static int copied(int old, int fd) {
    if (fd < 0 || fd == old)
        return fd;
    struct node *node = find_node(old);
    pthread_mutex_lock(&lock);
    int kept = add_copy(old, fd, node);
    pthread_mutex_unlock(&lock);
    if (kept)
        return fd;
    real_close(fd);
    return refuse(-EMFILE);
}

int dup(int fd) {
    find_real();
    return copied(fd, real_dup(fd));
}

int dup3(int old, int fd, int flags) {
    find_real();
    struct stat about;
    if (old != fd && !plain_stat(old, "", &about, AT_EMPTY_PATH))
        close(fd);
    return copied(old, real_dup3(old, fd, flags));
}

int dup2(int old, int fd) {
    struct stat about;
    if (old == fd)
        return plain_stat(old, "", &about, AT_EMPTY_PATH) ? -1 : fd;
    return dup3(old, fd, 0);
}

int fcntl(int fd, int command, ...) {
    find_real();
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    int answer = real_fcntl(fd, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(fd, answer) : answer;
}

int fcntl64(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return fcntl(fd, command, argument);
}

/* ---- ioctl ---------------------------------------------------------------------------------- */

static void fill(uint64_t pointer, uint64_t room, uint64_t *length, const char *text) {
    size_t size = strlen(text);
    if (pointer && room)
        memcpy((void *)(uintptr_t)pointer, text, size < room ? size : room);
    *length = size;
}

static void fill_version(struct drm_version *answer, const struct drm_version *asked, int display) {
    const char *date = getenv("ORK_SIM_DATE");
    answer->name = asked->name;
    answer->date = asked->date;
    answer->description = asked->description;
    fill(asked->name, asked->name_length, &answer->name_length, display ? "rockchip" : "rknpu");
    fill(asked->date, asked->date_length, &answer->date_length, display ? "20140818" : date ? date : "");
    fill(asked->description, asked->description_length, &answer->description_length,
         display ? "RockChip Soc DRM" : "RKNPU driver");
}

static int npu_ioctl(struct node *node, unsigned request, void *argument) {
    char payload[1 << 14];
    size_t size = request >> 16 & 0x3FFF;
    int64_t named = 0;
    if (size && !argument)
        return refuse(-EFAULT);
    if ((request & 0xFF) == DRM_IOCTL_PRIME_FD_TO_HANDLE_NR && size >= 12) {
        struct stat about;
        int32_t fd;
        memcpy(&fd, (char *)argument + 8, sizeof fd);
        if (fstat(fd, &about))
            return -1;
        named = (int64_t)about.st_ino;
    }
    memcpy(payload, argument, size);
    int64_t value = ask(node, IOCTL, (int64_t)request, named, payload, size, payload, size, NULL);
    if (value >= 0 && request == DRM_IOCTL_VERSION)
        fill_version((struct drm_version *)payload, argument, 0);
    if (value != -ENODEV)
        memcpy(argument, payload, size);
    return value < 0 ? refuse(value) : (int)value;
}

static int display_ioctl(unsigned request, void *argument) {
    if (request != DRM_IOCTL_VERSION)
        return refuse(-EINVAL);
    struct drm_version answer = {.major = 3}, asked;
    memcpy(&asked, argument, sizeof asked);
    fill_version(&answer, &asked, 1);
    memcpy(argument, &answer, sizeof answer);
    return 0;
}

static int heap_ioctl(struct node *node, unsigned request, void *argument) {
    if (request != DMA_HEAP_IOCTL_ALLOC)
        return refuse(-ENOTTY);
    struct heap_allocation allocation;
    memcpy(&allocation, argument, sizeof allocation);
    if (allocation.fd || allocation.heap_flags || allocation.fd_flags & ~(unsigned)(O_CLOEXEC | O_ACCMODE))
        return refuse(-EINVAL);
    int fd = -1;
    int64_t value = ask(node, HEAP_ALLOCATE, (int64_t)allocation.length, 0, NULL, 0, NULL, 0, &fd);
    if (value < 0)
        return refuse(value);
    struct stat about;
    if (fd < 0 || fstat(fd, &about))
        return refuse(-EPROTO);
    if (!(allocation.fd_flags & O_CLOEXEC))
        fcntl(fd, F_SETFD, 0);
    pthread_mutex_lock(&lock);
    int kept = 0;
    for (int at = 0; at < MAX_BUFFERS && !kept; at++)
        if (!buffers[at].heap) {
            buffers[at] = (struct buffer){fd, about.st_ino, node};
            node->users++;
            kept = 1;
        }
    pthread_mutex_unlock(&lock);
    if (!kept) {
        real_close(fd);
        return refuse(-ENOMEM);
    }
    allocation.fd = (uint32_t)fd;
    memcpy(argument, &allocation, sizeof allocation);
    return 0;
}

/* A sync of a buffer of the simulated heap, under whatever descriptor. */
static int sync_buffer(int fd, const void *argument, int *answer) {
    struct stat about;
    struct node *heap = NULL;
    if (fstat(fd, &about))
        return 0;
    pthread_mutex_lock(&lock);
    for (int at = 0; at < MAX_BUFFERS && !heap; at++)
        if (buffers[at].heap && buffers[at].inode == about.st_ino)
            heap = buffers[at].heap;
    pthread_mutex_unlock(&lock);
    if (!heap)
        return 0;
    uint64_t flags;
    memcpy(&flags, argument, sizeof flags);
    int64_t value = ask(heap, HEAP_SYNC, (int64_t)about.st_ino, (int64_t)flags, NULL, 0, NULL, 0, NULL);
    *answer = value < 0 ? refuse(value) : 0;
    return 1;
}

int ioctl(int fd, unsigned long request, ...) {
    find_real();
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    struct node *node = find_node(fd);
    int answer;
    if (node && node->kind == NPU)
        return npu_ioctl(node, (unsigned)request, argument);
    if (node && node->kind == DISPLAY)
        return display_ioctl((unsigned)request, argument);
    if (node)
        return heap_ioctl(node, (unsigned)request, argument);
    if ((unsigned)request == DMA_BUF_IOCTL_SYNC && argument && sync_buffer(fd, argument, &answer))
        return answer;
    return real_ioctl(fd, request, argument);
}

/* ---- mmap and close ------------------------------------------------------------------------- */

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    find_real();
    struct node *node = fd >= 0 ? find_node(fd) : NULL;
    if (!node)
        return real_mmap(address, length, protection, flags, fd, offset);
    int passed = -1;
    int64_t value = node->kind == NPU ? ask(node, MMAP, offset, (int64_t)length, NULL, 0, NULL, 0, &passed) : -ENODEV;
    if (value < 0 || passed < 0) {
        errno = value < 0 ? (int)-value : EPROTO;
        return MAP_FAILED;
    }
    void *mapped = real_mmap(address, length, protection, flags, passed, 0);
    int error = errno;
    real_close(passed);
    errno = error;
    return mapped;
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return mmap(address, length, protection, flags, fd, offset);
}

int close(int fd) {
    find_real();
    struct node *heap = NULL;
    ino_t inode = 0;
    pthread_mutex_lock(&lock);
    for (int at = 0; at < MAX_NODES; at++)
        if (nodes[at].kind != FREE && nodes[at].fd == fd) {
            nodes[at].fd = -1;
            drop(&nodes[at]);
        }
    for (int at = 0; at < MAX_COPIES; at++)
        if (copies[at].node && copies[at].fd == fd) {
            struct node *node = copies[at].node;
            copies[at].node = NULL;
            drop(node);
        }
    for (int at = 0; at < MAX_BUFFERS && !heap; at++)
        if (buffers[at].heap && buffers[at].fd == fd) {
            heap = buffers[at].heap;
            inode = buffers[at].inode;
            buffers[at].heap = NULL;
        }
    int last = 1;
    for (int at = 0; at < MAX_BUFFERS; at++)
        last &= !(buffers[at].heap && buffers[at].inode == inode);
    pthread_mutex_unlock(&lock);
    int result = real_close(fd);
    if (heap) {
        int error = errno;
        if (last)
            ask(heap, HEAP_RELEASE, (int64_t)inode, 0, NULL, 0, NULL, 0, NULL);
        pthread_mutex_lock(&lock);
        drop(heap);
        pthread_mutex_unlock(&lock);
        errno = error;
    }
    return result;
}
