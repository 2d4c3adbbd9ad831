/* load: asks a server as many clients do, for tests of qkv serve.
 *     load PORT SECONDS CLIENTS SEED    random requests, whole ones, broken ones, clients that go away
 *     load PORT flood COUNT             COUNT requests at once, all sent before any answer is read
 * Prints how many answers came, by their kind; a request without an answer is lost, and the exit code is 1. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 20 };
static int port;
static double until;
static atomic_ulong answered, refused, told, left_early, lost, wrong;

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int dial(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof to)) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static unsigned draw(unsigned *state, unsigned below) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

static size_t request_text(char *text, size_t room, unsigned *state) {
    static const char *const prompts[] = {"the king", "a queen sees", "one", "the fool fears the ghost", "this"};
    char body[512];
    const unsigned kind = draw(state, 8);
    const char *prompt = prompts[draw(state, 5)];
    const unsigned n = 1 + draw(state, 3), tokens = draw(state, 20), seed = draw(state, 100000);
    const char *path = "/v1/completions", *stream = draw(state, 2) ? "true" : "false";
    if (kind < 5) {
        snprintf(body, sizeof body, "{\"prompt\":\"%s\",\"n\":%u,\"max_tokens\":%u,\"seed\":%u,\"stream\":%s}", prompt,
                 n, tokens, seed, stream);
    } else if (kind == 5) {
        path = "/v1/chat/completions";
        snprintf(body, sizeof body,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"max_tokens\":%u,\"seed\":%u}", "hi", 4u,
                 seed);
    } else if (kind == 6) {
        path = "/tokenize";
        snprintf(body, sizeof body, "{\"content\":\"%s\"}", prompt);
    } else {
        snprintf(body, sizeof body, "{\"prompt\":\"%s\",\"max_tokens\":%s}", prompt, draw(state, 2) ? "-3" : "[");
    }
    return (size_t)snprintf(text, room, "POST %s HTTP/1.0\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", path,
                            strlen(body), body);
}

/* Reads an answer to its end, or no more than `most` bytes; −1: there is none. */
static ssize_t read_answer(int fd, char *buffer, size_t most) {
    size_t size = 0;
    while (size < most) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 60000) <= 0) return -1;
        const ssize_t got = read(fd, buffer + size, most - size);
        if (got < 0) return size ? (ssize_t)size : -1;
        if (!got) break;
        size += (size_t)got;
    }
    return (ssize_t)size;
}

/* Counts an answer by its status, and whether it is whole. */
static void judge(const char *buffer, ssize_t size) {
    const int status = size > 12 && !memcmp(buffer, "HTTP/1.", 7) ? atoi(buffer + 9) : 0;
    const char last = size > 0 ? buffer[size - 1] : 0;
    if (size <= 0)
        lost++;
    else if (status == 200 && (last == '}' || (last == '\n' && memmem(buffer, (size_t)size, "[DONE]", 6))))
        answered++;
    else if (status == 503 && memmem(buffer, (size_t)size, "Retry-After:", 12))
        refused++;
    else if (status == 400 && memmem(buffer, (size_t)size, "\"error\"", 7))
        told++;
    else
        wrong++;
}

static void *client(void *seed) {
    unsigned state = (unsigned)(uintptr_t)seed;
    char *buffer = malloc(BUFFER), text[1024];
    while (buffer && seconds_now() < until) {
        const unsigned way = draw(&state, 20);
        size_t size = request_text(text, sizeof text, &state);
        const int fd = dial();
        if (fd < 0) {
            lost++;
            continue;
        }
        if (way == 0) /* no HTTP */
            for (size_t i = 0; i < size; i++) text[i] = (char)draw(&state, 256);
        if (way == 1) size = draw(&state, (unsigned)size); /* half of one */
        const bool whole = way > 1, stays = way > 3;
        if (send(fd, text, size, MSG_NOSIGNAL) == (ssize_t)size && whole) {
            const ssize_t got = read_answer(fd, buffer, stays ? BUFFER : draw(&state, 600));
            if (stays)
                judge(buffer, got);
            else
                left_early++;
        } else {
            left_early++;
        }
        close(fd);
    }
    free(buffer);
    return NULL;
}

static int tell(void) {
    printf("answered %lu, refused %lu, told %lu, left %lu, lost %lu, wrong %lu\n", answered, refused, told, left_early,
           lost, wrong);
    return lost || wrong || !answered;
}

static int flood(size_t count) {
    struct rlimit files;
    char *buffer = malloc(BUFFER), text[1024];
    int *sockets = calloc(count, sizeof *sockets);
    unsigned state = 1;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < count + 16) count = files.rlim_cur - 16;
    for (size_t i = 0; i < count; i++) {
        size_t size;
        do size = request_text(text, sizeof text, &state);
        while (strstr(text, ":[}") || strstr(text, ":-3"));
        sockets[i] = dial();
        if (sockets[i] < 0 || send(sockets[i], text, size, MSG_NOSIGNAL) != (ssize_t)size) lost++;
    }
    printf("%zu at once: ", count);
    for (size_t i = 0; i < count; i++) {
        if (sockets[i] < 0) continue;
        judge(buffer, read_answer(sockets[i], buffer, BUFFER));
        close(sockets[i]);
    }
    free(sockets);
    free(buffer);
    return tell();
}

int main(int count, char **words) {
    pthread_t threads[64];
    if (count < 4) return 2;
    port = atoi(words[1]);
    if (!strcmp(words[2], "flood")) return flood((size_t)atol(words[3]));
    if (count < 5) return 2;
    const size_t clients = (size_t)atol(words[3]) < 64 ? (size_t)atol(words[3]) : 64;
    until = seconds_now() + atof(words[2]);
    for (size_t i = 0; i < clients; i++)
        pthread_create(&threads[i], NULL, client, (void *)((uintptr_t)atol(words[4]) * 64 + i));
    for (size_t i = 0; i < clients; i++) pthread_join(threads[i], NULL);
    return tell();
}
