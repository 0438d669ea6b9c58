#include "server/inference/response_cache.h"

#include "server/inference/row_hash.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_BITS 4
#define SHARDS     (1u << SHARD_BITS)

/* A chain for so many bytes: an answer of a small network takes about as much (28 x 28 pixels, or 3 x 32 x
 * 32), and the table less than a hundredth of the room. */
#define BYTES_PER_CHAIN 1024

/* The heap's own bytes in front of a piece, and what pieces are rounded up to. */
#define HEAP_HEAD  8
#define HEAP_ALIGN 16

struct convoy_response {
    struct convoy_response *next;          /* in its chain */
    struct convoy_response *newer, *older; /* in its shard, by use */
    uint64_t hash;
    uint32_t model, load;
    enum convoy_input_layout layout;
    uint32_t output_count;
    size_t row_bytes;
    float outputs[]; /* the row stands behind them */
};

struct shard {
    pthread_mutex_t lock;
    size_t room, used; /* bytes; the table is not among them */
    struct convoy_response **chains;
    size_t chain_mask;
    struct convoy_response *newest, *oldest;
};

struct convoy_response_cache {
    struct convoy_row_hash_key hash_key;
    struct convoy_cache_metrics *metrics;
    struct shard shards[SHARDS];
};

static int open_shard(struct shard *shard, size_t share)
{
    size_t chains = 1;

    while (2 * chains * BYTES_PER_CHAIN <= share)
        chains *= 2;
    shard->chains = calloc(chains, sizeof *shard->chains);
    if (shard->chains == NULL)
        return -ENOMEM;
    shard->chain_mask = chains - 1;
    shard->room = share - chains * sizeof *shard->chains;
    return pthread_mutex_init(&shard->lock, NULL) == 0 ? 0 : -ENOMEM;
}

int convoy_response_cache_new(uint64_t bytes, struct convoy_cache_metrics *metrics,
                              struct convoy_response_cache **result, struct convoy_error *error)
{
    struct convoy_response_cache *cache = calloc(1, sizeof *cache);
    int code = cache == NULL ? -ENOMEM : convoy_row_hash_key(&cache->hash_key, error);

    for (uint32_t i = 0; code == 0 && i < SHARDS; i++)
        code = open_shard(&cache->shards[i], (size_t)((bytes - sizeof *cache) / SHARDS));
    if (code == -ENOMEM)
        convoy_fail(error, code, "out of memory for the response cache: lower response_cache.bytes");
    if (code != 0) {
        convoy_response_cache_free(cache);
        return code;
    }
    cache->metrics = metrics;
    *result = cache;
    return 0;
}

void convoy_response_cache_free(struct convoy_response_cache *cache)
{
    if (cache == NULL)
        return;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &cache->shards[i];
        for (struct convoy_response *at = shard->oldest, *newer; at != NULL; at = newer) {
            newer = at->newer;
            free(at);
        }
        if (shard->chains != NULL)
            pthread_mutex_destroy(&shard->lock);
        free(shard->chains);
    }
    free(cache);
}

void convoy_response_free(struct convoy_response *response)
{
    free(response);
}

static uint64_t hash_of(const struct convoy_response_cache *cache, const struct convoy_response_key *key)
{
    uint64_t about = (uint64_t)key->layout << 48 | (uint64_t)key->model << 32 | key->load;

    return convoy_row_hash(&cache->hash_key, about, key->row, key->row_bytes);
}

/* The shard by the hash's highest bits, the chain by its lowest. */
static struct shard *shard_of(struct convoy_response_cache *cache, uint64_t hash)
{
    return &cache->shards[hash >> (64 - SHARD_BITS)];
}

static size_t size_of(size_t row_bytes, uint32_t output_count)
{
    return sizeof(struct convoy_response) + output_count * sizeof(float) + row_bytes;
}

/* What an answer is counted as. */
static size_t cost_of(size_t row_bytes, uint32_t output_count)
{
    return (size_of(row_bytes, output_count) + HEAP_HEAD + HEAP_ALIGN - 1) / HEAP_ALIGN * HEAP_ALIGN;
}

static const void *row_of(const struct convoy_response *response)
{
    return response->outputs + response->output_count;
}

static bool answers(const struct convoy_response *response, uint64_t hash,
                    const struct convoy_response_key *key)
{
    return response->hash == hash && response->model == key->model && response->load == key->load &&
           response->layout == key->layout && response->row_bytes == key->row_bytes &&
           response->output_count == key->output_count &&
           memcmp(row_of(response), key->row, key->row_bytes) == 0;
}

/* ---- Under the shard's lock ---- */

static struct convoy_response *find(const struct shard *shard, uint64_t hash,
                                    const struct convoy_response_key *key)
{
    struct convoy_response *at = shard->chains[hash & shard->chain_mask];

    while (at != NULL && !answers(at, hash, key))
        at = at->next;
    return at;
}

static void make_newest(struct shard *shard, struct convoy_response *response)
{
    response->newer = NULL;
    response->older = shard->newest;
    if (shard->newest != NULL)
        shard->newest->newer = response;
    else
        shard->oldest = response;
    shard->newest = response;
}

static void leave_order(struct shard *shard, struct convoy_response *response)
{
    if (response->newer != NULL)
        response->newer->older = response->older;
    else
        shard->newest = response->older;
    if (response->older != NULL)
        response->older->newer = response->newer;
    else
        shard->oldest = response->newer;
}

/* Takes the oldest out and puts it before gone. */
static struct convoy_response *evict(struct convoy_response_cache *cache, struct shard *shard,
                                     struct convoy_response *gone)
{
    struct convoy_response *oldest = shard->oldest;
    struct convoy_response **link = &shard->chains[oldest->hash & shard->chain_mask];
    size_t cost = cost_of(oldest->row_bytes, oldest->output_count);

    while (*link != oldest)
        link = &(*link)->next;
    *link = oldest->next;
    leave_order(shard, oldest);
    shard->used -= cost;
    convoy_metrics_cache_evicted(cache->metrics, cost);
    oldest->next = gone;
    return oldest;
}

/* Returns the evicted answers, linked by next. */
static struct convoy_response *take_in(struct convoy_response_cache *cache, struct shard *shard,
                                       struct convoy_response *response)
{
    struct convoy_response **chain = &shard->chains[response->hash & shard->chain_mask], *gone = NULL;
    size_t cost = cost_of(response->row_bytes, response->output_count);

    while (shard->used + cost > shard->room)
        gone = evict(cache, shard, gone);
    response->next = *chain;
    *chain = response;
    make_newest(shard, response);
    shard->used += cost;
    convoy_metrics_cache_inserted(cache->metrics, cost);
    return gone;
}

/* ---- Without it ---- */

/* NULL when it cannot be kept. */
static struct convoy_response *prepare(const struct shard *shard, uint64_t hash,
                                       const struct convoy_response_key *key)
{
    if (cost_of(key->row_bytes, key->output_count) > shard->room)
        return NULL;
    struct convoy_response *response = malloc(size_of(key->row_bytes, key->output_count));
    if (response == NULL)
        return NULL;
    response->hash = hash;
    response->model = key->model;
    response->load = key->load;
    response->layout = key->layout;
    response->output_count = key->output_count;
    response->row_bytes = key->row_bytes;
    memcpy(response->outputs + key->output_count, key->row, key->row_bytes);
    return response;
}

bool convoy_response_cache_lookup(struct convoy_response_cache *cache, const struct convoy_response_key *key,
                                  float *outputs, struct convoy_response **response)
{
    uint64_t hash = hash_of(cache, key);
    struct shard *shard = shard_of(cache, hash);

    *response = NULL;
    pthread_mutex_lock(&shard->lock);
    struct convoy_response *found = find(shard, hash, key);
    if (found != NULL) {
        leave_order(shard, found);
        make_newest(shard, found);
        memcpy(outputs, found->outputs, key->output_count * sizeof(float));
    }
    pthread_mutex_unlock(&shard->lock);
    if (found == NULL)
        *response = prepare(shard, hash, key);
    return found != NULL;
}

void convoy_response_cache_insert(struct convoy_response_cache *cache, struct convoy_response *response,
                                  const float *outputs)
{
    const struct convoy_response_key key = {.model = response->model,
                                            .load = response->load,
                                            .layout = response->layout,
                                            .row = row_of(response),
                                            .row_bytes = response->row_bytes,
                                            .output_count = response->output_count};
    struct shard *shard = shard_of(cache, response->hash);
    struct convoy_response *gone;

    memcpy(response->outputs, outputs, response->output_count * sizeof(float));
    pthread_mutex_lock(&shard->lock);
    if (find(shard, response->hash, &key) == NULL) {
        gone = take_in(cache, shard, response);
    } else {
        gone = response;
        gone->next = NULL;
    }
    pthread_mutex_unlock(&shard->lock);
    while (gone != NULL) {
        struct convoy_response *next = gone->next;
        free(gone);
        gone = next;
    }
}
