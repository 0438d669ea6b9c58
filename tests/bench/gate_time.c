/* What keys and limits cost a request: the look-up of a key that is known and of one that is not, in a file
 * of 1024, and a request's turn at its token bucket with a thousand and a million clients; and what the two
 * cost together. One thread; then as many threads as there are cores, which share table and keyring.
 * bench_gate_time prints nanoseconds of processor time, medians of ROUNDS rounds. */
#include "engine/base/clock.h"
#include "engine/base/cores.h"
#include "server/security/keyring.h"
#include "server/security/limits.h"

#include <nettle/sha2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS    1024u
#define ROUNDS  31u
#define TIMES   20000u
#define THREADS 64u

static struct convoy_keyring *keyring;
static struct convoy_limits *limits;
static char keys[KEYS][72];

static void must(bool true_, const char *what)
{
    if (true_)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void make_keys(void)
{
    char path[] = "/tmp/convoy-keys-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    struct convoy_error error;

    must(file != NULL, "no file for the keys");
    for (uint32_t i = 0; i < KEYS; i++) {
        struct sha256_ctx hash;
        uint8_t digest[SHA256_DIGEST_SIZE];
        snprintf(keys[i], sizeof keys[i], "convoy-%064x", i * 2654435761u);
        sha256_init(&hash);
        sha256_update(&hash, strlen(keys[i]), (const uint8_t *)keys[i]);
        sha256_digest(&hash, sizeof digest, digest);
        fprintf(file, "k%u infer sha256:", i);
        for (size_t j = 0; j < sizeof digest; j++)
            fprintf(file, "%02x", digest[j]);
        fputc('\n', file);
    }
    fclose(file);
    must(convoy_keyring_new(path, &keyring, &error) == 0, "the keys cannot be read");
    unlink(path);
}

static void known_key(uint32_t i)
{
    struct convoy_key entry;
    must(convoy_keyring_find(keyring, keys[i % KEYS], 71, &entry), "a key is not found");
}

static void wrong_key(uint32_t i)
{
    struct convoy_key entry;
    must(!convoy_keyring_find(keyring, keys[i % KEYS], 70, &entry), "a wrong key is found");
}

static void take_turn(uint32_t client)
{
    struct convoy_client_id id = {{0}};
    uint64_t ticket;
    int retry_s;

    memcpy(id.bytes, &client, sizeof client);
    if (convoy_limits_begin(limits, &id, convoy_now_ns(), &ticket, &retry_s) != CONVOY_LIMIT_NONE)
        return;
    convoy_limits_charge(limits, ticket, 1, convoy_now_ns());
    convoy_limits_end(limits, ticket);
}

static void of_thousand(uint32_t i)
{
    take_turn(i * 2654435761u % 1000);
}

static void of_million(uint32_t i)
{
    take_turn(i * 2654435761u % 1000000);
}

static void both(uint32_t i)
{
    known_key(i);
    of_thousand(i);
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Of this thread: what other programs take of the machine does not count. */
static double processor_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

struct measured {
    void (*run)(uint32_t i);
    double median_ns;
};

static void *measure(void *context)
{
    struct measured *measured = context;
    double rounds[ROUNDS];
    uint32_t i = 0;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        double begun = processor_ns();
        for (uint32_t n = 0; n < TIMES; n++)
            measured->run(i++);
        rounds[round] = (processor_ns() - begun) / TIMES;
    }
    qsort(rounds, ROUNDS, sizeof rounds[0], by_size);
    measured->median_ns = rounds[ROUNDS / 2];
    return NULL;
}

/* The slowest of so many threads. */
static double measure_with(uint32_t threads, void (*run)(uint32_t i))
{
    pthread_t handles[THREADS];
    struct measured measured[THREADS];
    double slowest = 0;

    for (uint32_t t = 0; t < threads; t++) {
        measured[t].run = run;
        must(pthread_create(&handles[t], NULL, measure, &measured[t]) == 0, "no thread");
    }
    for (uint32_t t = 0; t < threads; t++) {
        pthread_join(handles[t], NULL);
        if (measured[t].median_ns > slowest)
            slowest = measured[t].median_ns;
    }
    return slowest;
}

int main(void)
{
    static const struct {
        const char *what;
        void (*run)(uint32_t i);
    } cases[] = {{"a known key of 1024", known_key},
                 {"a wrong key", wrong_key},
                 {"limits, 1,000 clients", of_thousand},
                 {"limits, 1,000,000 clients", of_million},
                 {"key and limits", both}};
    const struct convoy_limit_config config = {
        .requests_per_second = 1e6, .images_per_second = 1e6, .concurrent = 1000};
    uint32_t threads = convoy_cores();

    if (threads > THREADS)
        threads = THREADS;
    make_keys();
    limits = convoy_limits_new(&config);
    must(limits != NULL, "memory is out");
    printf("%-28s %12s %12s\n", "nanoseconds a request", "1 thread", "all cores");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        printf("%-28s %12.0f %12.0f\n", cases[i].what, measure_with(1, cases[i].run),
               measure_with(threads, cases[i].run));
    convoy_limits_free(limits);
    convoy_keyring_free(keyring);
    return 0;
}
