#include "server/security/limits.h"

#include "engine/base/hash.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS  UINT64_C(1000000000)
#define DEBT_NS    (3600 * SECOND_NS)
#define WAYS       8u
#define SETS       (UINT32_C(1) << 17)
#define LOCKS      256u
#define RETRY_MOST 3600

struct bucket {
    struct convoy_client_id client;
    uint64_t requests_ns, images_ns; /* when each is full again */
    uint32_t running;                /* requests that are not answered */
    uint16_t generation;             /* of the rates that the times were reckoned with */
    bool used;
};

/* Locks on one cache line would be passed around between threads that have nothing to do with each other. */
struct lock {
    _Alignas(64) pthread_mutex_t mutex;
};

struct convoy_limits {
    /* Between two of them at the permitted rate; 0: no limit. */
    _Atomic uint64_t request_ns, image_ns;
    _Atomic uint64_t burst_ns;   /* how far a bucket of requests may be from full to take one more */
    _Atomic uint32_t concurrent; /* 0: no limit */
    _Atomic uint16_t generation; /* another one after each change of a rate */
    uint64_t hash_seed;
    struct bucket *buckets; /* SETS times WAYS */
    struct lock locks[LOCKS];
};

bool convoy_limits_wanted(const struct convoy_limit_config *config)
{
    return config->requests_per_second > 0 || config->images_per_second > 0 || config->concurrent > 0;
}

static uint64_t interval_ns(double per_second)
{
    return per_second > 0 ? (uint64_t)((double)SECOND_NS / per_second) : 0;
}

/* Sets the number; true when it was another one. */
static bool change(_Atomic uint64_t *number, uint64_t to)
{
    return atomic_exchange_explicit(number, to, memory_order_relaxed) != to;
}

static uint64_t get(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

void convoy_limits_change(struct convoy_limits *limits, const struct convoy_limit_config *config)
{
    uint64_t request_ns = interval_ns(config->requests_per_second);
    double burst = config->burst > 0 ? config->burst : ceil(config->requests_per_second);
    bool changed = change(&limits->request_ns, request_ns);

    changed |= change(&limits->image_ns, interval_ns(config->images_per_second));
    changed |= change(&limits->burst_ns, burst > 1 ? (uint64_t)((burst - 1) * (double)request_ns) : 0);
    atomic_store_explicit(&limits->concurrent, config->concurrent, memory_order_relaxed);
    if (changed)
        atomic_fetch_add_explicit(&limits->generation, 1, memory_order_relaxed);
}

struct convoy_limits *convoy_limits_new(const struct convoy_limit_config *config)
{
    struct convoy_limits *limits = aligned_alloc(_Alignof(struct convoy_limits), sizeof *limits);

    if (limits == NULL)
        return NULL;
    memset(limits, 0, sizeof *limits);
    limits->buckets = calloc((size_t)SETS * WAYS, sizeof limits->buckets[0]);
    if (limits->buckets == NULL) {
        free(limits);
        return NULL;
    }
    convoy_limits_change(limits, config);
    limits->hash_seed = convoy_hash_seed();
    for (uint32_t i = 0; i < LOCKS; i++)
        pthread_mutex_init(&limits->locks[i].mutex, NULL);
    return limits;
}

void convoy_limits_free(struct convoy_limits *limits)
{
    if (limits == NULL)
        return;
    for (uint32_t i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&limits->locks[i].mutex);
    free(limits->buckets);
    free(limits);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* When both are full again: after a change of rates they are. */
static uint64_t full_again(const struct bucket *bucket, uint16_t generation)
{
    return bucket->generation == generation ? later(bucket->requests_ns, bucket->images_ns) : 0;
}

/* The client's bucket in its set; else a place for it: a free one, or that of the client whose buckets are
 * full soonest. NULL when all clients of the set have requests that are not answered. */
static struct bucket *find(struct bucket *set, const struct convoy_client_id *client, uint16_t generation)
{
    struct bucket *place = NULL;

    for (struct bucket *at = set; at < set + WAYS; at++) {
        if (at->used && memcmp(&at->client, client, sizeof *client) == 0) {
            if (at->generation != generation) {
                at->requests_ns = at->images_ns = 0;
                at->generation = generation;
            }
            return at;
        }
        if (at->running > 0 || (place != NULL && !place->used))
            continue;
        if (place == NULL || !at->used || full_again(at, generation) < full_again(place, generation))
            place = at;
    }
    if (place != NULL)
        *place = (struct bucket){.client = *client, .generation = generation, .used = true};
    return place;
}

/* Whole seconds, at least one. */
static int seconds_of(uint64_t ns)
{
    uint64_t seconds = (ns + SECOND_NS - 1) / SECOND_NS;
    return seconds < 1 ? 1 : seconds > RETRY_MOST ? RETRY_MOST : (int)seconds;
}

/* The limit that keeps one more request of the bucket's client out. */
static enum convoy_limit exceeded(const struct convoy_limits *limits, const struct bucket *bucket,
                                  uint64_t now_ns, int *retry_s)
{
    uint32_t concurrent = atomic_load_explicit(&limits->concurrent, memory_order_relaxed);
    uint64_t image_ns = get(&limits->image_ns), burst_ns = get(&limits->burst_ns);

    *retry_s = 1;
    if (concurrent > 0 && bucket->running >= concurrent)
        return CONVOY_LIMIT_CONCURRENT;
    if (get(&limits->request_ns) > 0 && bucket->requests_ns > now_ns + burst_ns) {
        *retry_s = seconds_of(bucket->requests_ns - now_ns - burst_ns);
        return CONVOY_LIMIT_REQUESTS;
    }
    /* The bucket of images holds those of one second, and one at least. One must be in it. */
    uint64_t spent_ns = image_ns < SECOND_NS ? SECOND_NS - image_ns : 0;
    if (image_ns > 0 && bucket->images_ns > now_ns + spent_ns) {
        *retry_s = seconds_of(bucket->images_ns - now_ns - spent_ns);
        return CONVOY_LIMIT_IMAGES;
    }
    return CONVOY_LIMIT_NONE;
}

enum convoy_limit convoy_limits_begin(struct convoy_limits *limits, const struct convoy_client_id *client,
                                      uint64_t now_ns, uint64_t *ticket, int *retry_s)
{
    uint32_t set = (uint32_t)convoy_hash(limits->hash_seed, client, sizeof *client) & (SETS - 1);
    pthread_mutex_t *lock = &limits->locks[set % LOCKS].mutex;
    enum convoy_limit limit = CONVOY_LIMIT_CONCURRENT;

    *ticket = 0;
    *retry_s = 1;
    pthread_mutex_lock(lock);
    struct bucket *bucket = find(&limits->buckets[(size_t)set * WAYS], client,
                                 atomic_load_explicit(&limits->generation, memory_order_relaxed));
    if (bucket != NULL)
        limit = exceeded(limits, bucket, now_ns, retry_s);
    if (bucket != NULL && limit == CONVOY_LIMIT_NONE) {
        bucket->requests_ns = later(bucket->requests_ns, now_ns) + get(&limits->request_ns);
        bucket->running++;
        *ticket = (uint64_t)(bucket - limits->buckets) + 1;
    }
    pthread_mutex_unlock(lock);
    return limit;
}

static pthread_mutex_t *lock_of(struct convoy_limits *limits, uint64_t ticket)
{
    return &limits->locks[(ticket - 1) / WAYS % LOCKS].mutex;
}

void convoy_limits_charge(struct convoy_limits *limits, uint64_t ticket, uint32_t images, uint64_t now_ns)
{
    struct bucket *bucket = &limits->buckets[ticket - 1];
    pthread_mutex_t *lock = lock_of(limits, ticket);

    pthread_mutex_lock(lock);
    uint64_t full_ns = later(bucket->images_ns, now_ns) + images * get(&limits->image_ns);
    bucket->images_ns = full_ns < now_ns + DEBT_NS ? full_ns : now_ns + DEBT_NS;
    pthread_mutex_unlock(lock);
}

void convoy_limits_end(struct convoy_limits *limits, uint64_t ticket)
{
    pthread_mutex_t *lock = lock_of(limits, ticket);

    pthread_mutex_lock(lock);
    limits->buckets[ticket - 1].running--;
    pthread_mutex_unlock(lock);
}
