/* A closed loop of HTTP/1.1 requests over many connections, from one thread, as cheaply as possible.
 *
 * load PORT CONNECTIONS SECONDS STREAMS STEP
 *
 * Standard input has the request: everything before the number of a stream, a zero byte, everything after it.
 * With STREAMS 0 it has no number. STEP is how far the number of one request is from the one before; with 0 every
 * connection stays with the stream of its own number. A connection sends when its last request was answered.
 *
 * Prints one line "name value" for each figure; "refused.CODE" counts the refusals of each error code.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CODES_MAX 64
#define CODE_BYTES 48
#define EVENTS_MAX 256

struct connection {
    int fd;
    double sent_at;
    size_t sent, request_bytes, used, room, at; /* "at" is how far a chunked body was skipped */
    char *request, *answer;
};

static char *before, *after;
static size_t before_bytes, after_bytes;
static int poller, port;
static long streams, step, last;
static uint32_t *microseconds;
static size_t measured, measured_max;
static long broken;
static struct { char name[CODE_BYTES]; long count; } codes[CODES_MAX];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void count_code(const char *code, size_t length) {
    int index = 0;
    if (length >= CODE_BYTES) length = CODE_BYTES - 1;
    while (index < CODES_MAX - 1 && codes[index].count &&
           (strlen(codes[index].name) != length || memcmp(codes[index].name, code, length)))
        index++;
    if (!codes[index].count) memcpy(codes[index].name, code, length);
    codes[index].count++;
}

static void count_refusal(int status, char *body, size_t length) {
    static const char *const members[] = {"\"error_code\":\"", "\"code\":\""};
    char number[8];
    for (int index = 0; index < 2; index++) {
        char *found = memmem(body, length, members[index], strlen(members[index]));
        if (found) {
            found += strlen(members[index]);
            char *end = memchr(found, '"', body + length - found);
            if (end) {
                count_code(found, end - found);
                return;
            }
        }
    }
    count_code(number, snprintf(number, sizeof number, "%d", status));
}

static void watch(struct connection *one, int operation, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = one};
    if (epoll_ctl(poller, operation, one->fd, &event)) fail("epoll_ctl");
}

static void open_connection(struct connection *one) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int yes = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    one->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (one->fd < 0) fail("socket");
    if (connect(one->fd, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    one->used = 0;
    watch(one, EPOLL_CTL_ADD, EPOLLIN);
}

/* Send what is left of the request; large ones go out as the server takes them. */
static int send_rest(struct connection *one) {
    while (one->sent < one->request_bytes) {
        ssize_t sent = send(one->fd, one->request + one->sent, one->request_bytes - one->sent,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            watch(one, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            return 1;
        }
        if (sent < 0) return 0;
        one->sent += sent;
    }
    return 1;
}

static int send_next(struct connection *one, long own) {
    size_t bytes = before_bytes;
    if (streams) {
        last = (last + step) % streams;
        bytes += sprintf(one->request + bytes, "%ld", step ? last : own % streams);
    }
    memcpy(one->request + bytes, after, after_bytes);
    one->request_bytes = bytes + after_bytes;
    one->sent = one->used = one->at = 0;
    one->sent_at = now();
    return send_rest(one);
}

static char *header(char *head, size_t length, const char *name) {
    char *line = head, *end = head + length;
    size_t size = strlen(name);
    while ((line = memmem(line, end - line, "\r\n", 2)) && line + 2 + size < end) {
        line += 2;
        if (!strncasecmp(line, name, size)) return line + size;
    }
    return NULL;
}

/* Say whether a chunked body is complete. */
static int chunks_end(struct connection *one) {
    for (;;) {
        char *line = one->answer + one->at, *end = memmem(line, one->used - one->at, "\r\n", 2);
        if (!end) return 0;
        size_t size = strtoul(line, NULL, 16), next = end + 2 - one->answer + size + 2;
        if (next > one->used) return 0;
        if (!size) return 1;
        one->at = next;
    }
}

/* Take what has arrived: 1 if the answer is complete, 0 if not yet, -1 if the connection is of no more use. */
static int receive(struct connection *one) {
    if (one->room - one->used < 65536) {
        one->room = one->room * 2 + 65536;
        one->answer = realloc(one->answer, one->room + 1);
        if (!one->answer) fail("realloc");
    }
    ssize_t got = recv(one->fd, one->answer + one->used, one->room - one->used, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) return -1;
    one->used += got;
    one->answer[one->used] = 0;
    char *end = memmem(one->answer, one->used, "\r\n\r\n", 4), *length;
    if (!end || one->used < 12) return 0;
    size_t head = end + 4 - one->answer;
    int status = atoi(one->answer + 9);
    if (status != 204) {
        if ((length = header(one->answer, head, "content-length:"))) {
            if (one->used < head + strtoul(length, NULL, 10)) return 0;
        } else {
            if (!one->at) one->at = head;
            if (!chunks_end(one)) return 0;
        }
    }
    if (status < 200 || status >= 300) count_refusal(status, one->answer + head, one->used - head);
    return 1;
}

static void note_time(double seconds) {
    if (measured == measured_max) {
        measured_max = measured_max * 2 + 65536;
        microseconds = realloc(microseconds, measured_max * sizeof *microseconds);
        if (!microseconds) fail("realloc");
    }
    microseconds[measured++] = (uint32_t)(seconds * 1e6);
}

static int ascending(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void read_request(void) {
    size_t used = 0, room = 1 << 20;
    char *text = malloc(room);
    for (ssize_t got; (got = read(0, text + used, room - used)) > 0; used += got)
        if (used + got == room && !(text = realloc(text, room *= 2))) fail("realloc");
    char *middle = memchr(text, 0, used);
    if (!middle) fail("the request has no place for the number of a stream");
    before = text;
    before_bytes = middle - text;
    after = middle + 1;
    after_bytes = used - before_bytes - 1;
}

int main(int count, char **given) {
    if (count != 6) {
        fprintf(stderr, "load PORT CONNECTIONS SECONDS STREAMS STEP < request\n");
        return 2;
    }
    port = atoi(given[1]);
    int connections = atoi(given[2]);
    double seconds = atof(given[3]);
    streams = atol(given[4]);
    step = atol(given[5]);
    srandom(time(NULL) ^ getpid());
    last = streams ? random() % streams : 0;
    read_request();
    poller = epoll_create1(0);
    struct connection *all = calloc(connections, sizeof *all);
    for (int index = 0; index < connections; index++) {
        all[index].request = malloc(before_bytes + after_bytes + 32);
        memcpy(all[index].request, before, before_bytes);
        open_connection(&all[index]);
    }
    double begin = now(), ends = begin + seconds, time_now;
    for (int index = 0; index < connections; index++) send_next(&all[index], index);
    struct epoll_event events[EVENTS_MAX];
    while ((time_now = now()) < ends) {
        int ready = epoll_wait(poller, events, EVENTS_MAX, 100);
        for (int index = 0; index < ready; index++) {
            struct connection *one = events[index].data.ptr;
            int works = 1, done = 0;
            if (events[index].events & EPOLLOUT) {
                watch(one, EPOLL_CTL_MOD, EPOLLIN);
                works = send_rest(one);
            }
            if (works && events[index].events & ~EPOLLOUT) done = receive(one);
            if (done > 0) note_time(now() - one->sent_at);
            if (done < 0 || !works) {
                broken++;
                close(one->fd);
                open_connection(one);
            }
            if (done || !works) send_next(one, one - all);
        }
    }
    double took = now() - begin;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double processor = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
                       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    qsort(microseconds, measured, sizeof *microseconds, ascending);
    printf("seconds %.6f\nanswers %zu\nbroken %ld\nprocessor_seconds %.6f\n", took, measured, broken, processor);
    if (measured)
        printf("p50_ms %.3f\np95_ms %.3f\np99_ms %.3f\n", microseconds[measured / 2] / 1e3,
               microseconds[measured * 95 / 100] / 1e3,
               microseconds[measured * 99 / 100] / 1e3);
    for (int index = 0; index < CODES_MAX && codes[index].count; index++)
        printf("refused.%s %ld\n", codes[index].name, codes[index].count);
    return 0;
}
