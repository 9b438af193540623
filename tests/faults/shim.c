/* Kills the process that it is preloaded into at the n-th file operation below one folder.
 *
 *   LD_PRELOAD=shim.so SHIM_FOLDER=/data/store SHIM_CONTROL=file SHIM_TRACE=file server …
 *
 * The control file is shared memory: struct control. Nothing is counted before the test arms it. Each counted
 * operation is a line "n kind path" of the trace, written before the operation is done.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BEFORE = 0, AFTER = 1 };

struct control {
    volatile long armed, at, phase, count;
};

static struct control *control;
static const char *folder;
static size_t folder_length;
static int trace = -1;

#define REAL(name)                                                  \
    ({                                                              \
        static __typeof__(&name) real;                              \
        if (!real)                                                  \
            real = (__typeof__(&name))dlsym(RTLD_NEXT, #name);      \
        real;                                                       \
    })

__attribute__((constructor)) static void begin(void) {
    const char *shared = getenv("SHIM_CONTROL"), *log = getenv("SHIM_TRACE");
    folder = getenv("SHIM_FOLDER");
    if (!shared || !folder)
        return;
    folder_length = strlen(folder);
    int file = open(shared, O_RDWR | O_CLOEXEC);
    void *memory = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || memory == MAP_FAILED) {
        perror("shim: SHIM_CONTROL");
        abort();
    }
    if (log)
        trace = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    control = memory;
}

static void stop(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;)
        pause();
}

static int name_of(int fd, char *name) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, PATH_MAX - 1);
    if (length <= 0)
        return 0;
    name[length] = 0;
    return 1;
}

/* The operation's number, or 0 when it does not count. */
static long reached(const char *kind, int at, const char *path) {
    char name[PATH_MAX] = "", line[PATH_MAX + 64];
    if (!control || !control->armed)
        return 0;
    if (path && path[0] == '/')
        snprintf(name, sizeof name, "%s", path);
    else if (at < 0 || !name_of(at, name))
        return 0;
    if (strncmp(name, folder, folder_length) != 0)
        return 0;
    long number = __atomic_add_fetch(&control->count, 1, __ATOMIC_SEQ_CST);
    int length = snprintf(line, sizeof line, "%ld %s %s\n", number, kind, name);
    if (trace >= 0)
        syscall(SYS_write, trace, line, (size_t)length);
    return number;
}

static int due(long number, long phase) {
    return number && number == control->at && control->phase == phase;
}

#define AROUND(type, number, call)     \
    do {                               \
        long n = (number);             \
        if (due(n, BEFORE))            \
            stop();                    \
        type result = (call);          \
        if (due(n, AFTER))             \
            stop();                    \
        return result;                 \
    } while (0)

int rename(const char *from, const char *to) {
    AROUND(int, reached("rename", -1, to), REAL(rename)(from, to));
}
int renameat(int at, const char *from, int to_at, const char *to) {
    AROUND(int, reached("renameat", to_at, to), REAL(renameat)(at, from, to_at, to));
}
int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags) {
    AROUND(int, reached("renameat2", to_at, to), (int)syscall(SYS_renameat2, at, from, to_at, to, flags));
}
int link(const char *from, const char *to) {
    AROUND(int, reached("link", -1, to), REAL(link)(from, to));
}
int linkat(int at, const char *from, int to_at, const char *to, int flags) {
    AROUND(int, reached("linkat", to_at, to), REAL(linkat)(at, from, to_at, to, flags));
}
int symlink(const char *target, const char *path) {
    AROUND(int, reached("symlink", -1, path), REAL(symlink)(target, path));
}
int mkdir(const char *path, mode_t mode) {
    AROUND(int, reached("mkdir", -1, path), REAL(mkdir)(path, mode));
}
int rmdir(const char *path) {
    AROUND(int, reached("rmdir", -1, path), REAL(rmdir)(path));
}
int unlink(const char *path) {
    AROUND(int, reached("unlink", -1, path), REAL(unlink)(path));
}
int unlinkat(int at, const char *path, int flags) {
    AROUND(int, reached("unlinkat", at, path), REAL(unlinkat)(at, path, flags));
}
int fsync(int fd) {
    AROUND(int, reached("fsync", fd, NULL), REAL(fsync)(fd));
}
int fdatasync(int fd) {
    AROUND(int, reached("fdatasync", fd, NULL), REAL(fdatasync)(fd));
}

/* A write is cut in its middle: half of its bytes are in the file when the process ends. */
ssize_t write(int fd, const void *data, size_t size) {
    long number = reached("write", fd, NULL);
    if (due(number, BEFORE)) {
        syscall(SYS_write, fd, data, size / 2);
        stop();
    }
    ssize_t result = REAL(write)(fd, data, size);
    if (due(number, AFTER))
        stop();
    return result;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    long number = reached("pwrite", fd, NULL);
    if (due(number, BEFORE)) {
        syscall(SYS_pwrite64, fd, data, size / 2, offset);
        stop();
    }
    ssize_t result = REAL(pwrite)(fd, data, size, offset);
    if (due(number, AFTER))
        stop();
    return result;
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    return pwrite(fd, data, size, offset);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    AROUND(ssize_t, reached("writev", fd, NULL), REAL(writev)(fd, parts, count));
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    AROUND(ssize_t, reached("pwritev", fd, NULL), REAL(pwritev)(fd, parts, count, offset));
}

/* ClickHouse renames without replacing by syscall(SYS_renameat2, …). */
long syscall(long number, ...) {
    static long (*real)(long, ...);
    long a[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(rest, long);
    va_end(rest);
    if (!real)
        real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    long counted = 0;
    if (number == SYS_renameat2)
        counted = reached("renameat2", (int)a[2], (const char *)a[3]);
    if (due(counted, BEFORE))
        stop();
    long result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (due(counted, AFTER))
        stop();
    return result;
}
