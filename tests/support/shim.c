/* Loaded before the C library: faults in one directory, and a clock that jumps.
 *
 * The control is shared memory with the test, so that a change holds at once; shim.py has its twin. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t clock_offset_ns;
    volatile int64_t space_bytes;   /* what may still be written; negative: no bound */
    volatile int64_t sync_delay_us;
    volatile int32_t hold_syncs;    /* syncs do not return while this is set */
    volatile int32_t sync_errno;
    volatile int32_t sync_failures; /* how many syncs will fail */
    volatile int32_t change_errno;  /* what creating, opening for writing and removing fail with */
    volatile int64_t syncs;         /* how many syncs have been asked for */
    char directory[1024];
};

static struct control none = {.space_bytes = -1};
static struct control *control = &none;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void attach(void)
{
    const char *path = getenv("SHIM_CONTROL");
    int descriptor = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return;
    void *shared = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (shared != MAP_FAILED) control = shared;
    close(descriptor);
}

/* Paths ---------------------------------------------------------------------------------- */

static int is_path_inside(const char *path)
{
    size_t length = strlen(control->directory);
    return length > 0 && strncmp(path, control->directory, length) == 0
        && (path[length] == '/' || path[length] == '\0');
}

static int is_inside(int descriptor)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    return is_path_inside(path);
}

static int is_change_refused(const char *path)
{
    if (control->change_errno == 0 || !is_path_inside(path)) return 0;
    errno = control->change_errno;
    return 1;
}

/* Writing: when the space runs out a write is short, and the next one fails ------------------ */

static ssize_t admitted(int descriptor, size_t length)
{
    if (control->space_bytes < 0 || length == 0 || !is_inside(descriptor)) return (ssize_t)length;
    int64_t left = __atomic_fetch_sub(&control->space_bytes, (int64_t)length, __ATOMIC_SEQ_CST);
    if (left >= (int64_t)length) return (ssize_t)length;
    __atomic_store_n(&control->space_bytes, 0, __ATOMIC_SEQ_CST);
    if (left > 0) return (ssize_t)left;
    errno = ENOSPC;
    return -1;
}

ssize_t write(int descriptor, const void *data, size_t length)
{
    REAL(write);
    ssize_t allowed = admitted(descriptor, length);
    return allowed < 0 ? -1 : real(descriptor, data, (size_t)allowed);
}

ssize_t pwrite(int descriptor, const void *data, size_t length, off_t offset)
{
    REAL(pwrite);
    ssize_t allowed = admitted(descriptor, length);
    return allowed < 0 ? -1 : real(descriptor, data, (size_t)allowed, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t length, off64_t offset)
{
    REAL(pwrite64);
    ssize_t allowed = admitted(descriptor, length);
    return allowed < 0 ? -1 : real(descriptor, data, (size_t)allowed, offset);
}

/* Syncing: slow, held, or failing ------------------------------------------------------------ */

static int is_sync_refused(int descriptor)
{
    if (!is_inside(descriptor)) return 0;
    __atomic_fetch_add(&control->syncs, 1, __ATOMIC_SEQ_CST);
    if (control->sync_delay_us > 0) usleep((useconds_t)control->sync_delay_us);
    while (control->hold_syncs) usleep(5000);
    if (control->sync_failures <= 0) return 0;
    __atomic_fetch_sub(&control->sync_failures, 1, __ATOMIC_SEQ_CST);
    errno = control->sync_errno;
    return 1;
}

int fdatasync(int descriptor)
{
    REAL(fdatasync);
    return is_sync_refused(descriptor) ? -1 : real(descriptor);
}

int fsync(int descriptor)
{
    REAL(fsync);
    return is_sync_refused(descriptor) ? -1 : real(descriptor);
}

/* Names: a file system that takes no changes ------------------------------------------------- */

static int is_open_refused(const char *path, int flags)
{
    return (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0 && is_change_refused(path);
}

static mode_t mode_of(int flags, va_list arguments)
{
    return (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    REAL(open);
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return is_open_refused(path, flags) ? -1 : real(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    REAL(open64);
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return is_open_refused(path, flags) ? -1 : real(path, flags, mode);
}

int unlink(const char *path)
{
    REAL(unlink);
    return is_change_refused(path) ? -1 : real(path);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    return is_change_refused(path) ? -1 : real(path, mode);
}

int link(const char *from, const char *to)
{
    REAL(link);
    return is_change_refused(to) ? -1 : real(from, to);
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    return is_change_refused(to) ? -1 : real(from, to);
}

/* The time of day; the clock that never goes back is left alone ----------------------------- */

int clock_gettime(clockid_t which, struct timespec *now)
{
    REAL(clock_gettime);
    int failed = real(which, now);
    if (failed || which != CLOCK_REALTIME) return failed;
    int64_t moved = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + control->clock_offset_ns;
    now->tv_sec = moved / INT64_C(1000000000);
    now->tv_nsec = moved % INT64_C(1000000000);
    return 0;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *stored)
{
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return (time_t)-1;
    if (stored != NULL) *stored = precise.tv_sec;
    return precise.tv_sec;
}
