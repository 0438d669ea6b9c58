#include "server/http/address_counts.h"

#include "engine/base/hash.h"
#include "server/http/client_id.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* count 0: free. */
struct entry {
    struct convoy_client_id client;
    uint32_t count;
};

struct convoy_address_counts {
    pthread_mutex_t lock; /* entries and clients */
    uint64_t hash_seed;
    uint32_t limit, mask;
    uint32_t clients, most_clients; /* entries that are taken; there are always free ones: a search ends */
    struct entry entries[];         /* open addressing, a power of two, at least twice as many as clients */
};

struct convoy_address_counts *convoy_address_counts_new(uint32_t connections, uint32_t limit)
{
    uint32_t size = 16;
    while (size < 2 * connections)
        size *= 2;
    struct convoy_address_counts *counts = calloc(1, sizeof *counts + size * sizeof counts->entries[0]);

    if (counts == NULL)
        return NULL;
    pthread_mutex_init(&counts->lock, NULL);
    counts->hash_seed = convoy_hash_seed();
    counts->limit = limit;
    counts->most_clients = connections;
    counts->mask = size - 1;
    return counts;
}

void convoy_address_counts_free(struct convoy_address_counts *counts)
{
    if (counts == NULL)
        return;
    pthread_mutex_destroy(&counts->lock);
    free(counts);
}

static uint32_t place_of(const struct convoy_address_counts *counts, const struct convoy_client_id *client)
{
    return (uint32_t)convoy_hash(counts->hash_seed, client, sizeof *client) & counts->mask;
}

/* The client's entry, or the free one where it belongs. */
static uint32_t find(const struct convoy_address_counts *counts, const struct convoy_client_id *client)
{
    uint32_t at = place_of(counts, client);
    while (counts->entries[at].count > 0 && memcmp(&counts->entries[at].client, client, sizeof *client) != 0)
        at = (at + 1) & counts->mask;
    return at;
}

/* Frees the entry, and moves those behind it that would not be found any more. */
static void remove_entry(struct convoy_address_counts *counts, uint32_t hole)
{
    counts->entries[hole].count = 0;
    counts->clients--;
    for (uint32_t at = (hole + 1) & counts->mask; counts->entries[at].count > 0;
         at = (at + 1) & counts->mask) {
        uint32_t place = place_of(counts, &counts->entries[at].client);
        if (((at - place) & counts->mask) < ((at - hole) & counts->mask))
            continue; /* its place lies behind the hole */
        counts->entries[hole] = counts->entries[at];
        counts->entries[at].count = 0;
        hole = at;
    }
}

bool convoy_address_counts_take(struct convoy_address_counts *counts, const struct sockaddr *address)
{
    struct convoy_client_id client;

    if (!convoy_client_id_of(address, &client))
        return true;
    pthread_mutex_lock(&counts->lock);
    struct entry *entry = &counts->entries[find(counts, &client)];
    bool is_new = entry->count == 0;
    bool taken = entry->count < counts->limit && (!is_new || counts->clients < counts->most_clients);
    if (taken) {
        counts->clients += is_new;
        entry->client = client;
        entry->count++;
    }
    pthread_mutex_unlock(&counts->lock);
    return taken;
}

void convoy_address_counts_give(struct convoy_address_counts *counts, const struct sockaddr *address)
{
    struct convoy_client_id client;

    if (!convoy_client_id_of(address, &client))
        return;
    pthread_mutex_lock(&counts->lock);
    uint32_t at = find(counts, &client);
    if (counts->entries[at].count > 1)
        counts->entries[at].count--;
    else if (counts->entries[at].count == 1)
        remove_entry(counts, at);
    pthread_mutex_unlock(&counts->lock);
}
