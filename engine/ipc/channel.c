#include "engine/ipc/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHANNEL_MAGIC 0x796f766e6f63u /* "convoy" */
#define PAGE          4096u
/* A power of two, and twice the slots, so that completions of a dead worker and of its successor never meet.
 */
#define RING_ENTRIES (2u * CONVOY_MAX_SLOTS)
#define EPOCH_SHIFT  24 /* of generations: a slot's lie apart in fronts that follow each other */

/* Tails are on cache lines of their own: the two ends write them from different cores. */
struct ring {
    _Alignas(64) atomic_uint tail;
    _Alignas(64) struct convoy_done entries[RING_ENTRIES];
};

/* Whether an end is to be rung. It writes the word itself; the other end turns SLEEPS into ATTENDS when it
 * rings, so that it rings once. */
enum attention { RUNG_ALWAYS, ATTENDS, SLEEPS };

struct header {
    uint64_t magic;
    uint32_t abi, slots;
    uint64_t input_bytes, output_bytes;
    struct ring submit, done;
    _Alignas(64) atomic_uint progress;
    _Alignas(64) atomic_uint worker_attention;
    _Alignas(64) atomic_uint front_attention;
};

static size_t round_to_page(size_t bytes)
{
    return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

static struct header *header_of(const struct convoy_channel *channel)
{
    return channel->base;
}

static size_t slots_offset(void)
{
    return round_to_page(sizeof(struct header));
}

static size_t reports_offset(uint32_t slots)
{
    return slots_offset() + round_to_page(slots * sizeof(struct convoy_slot));
}

static size_t maps_offset(uint32_t slots)
{
    return reports_offset(slots) + round_to_page(slots * sizeof(struct convoy_slot_report));
}

static size_t data_offset(uint32_t slots)
{
    return maps_offset(slots) + round_to_page(slots * CONVOY_MAX_CLASS_MAP * sizeof(float));
}

static size_t slot_stride(const struct convoy_channel_size *size)
{
    return round_to_page(size->input_bytes) + 2 * round_to_page(size->output_bytes);
}

static size_t total_bytes(const struct convoy_channel_size *size)
{
    return data_offset(size->slots) + size->slots * slot_stride(size);
}

/* What an end said holds no more when it is gone. Its successor may be of an older build, which neither says
 * anything nor clears this; so an end that comes, or sees another one come, clears both words. */
static void ring_always(const struct convoy_channel *channel)
{
    atomic_store(&header_of(channel)->worker_attention, RUNG_ALWAYS);
    atomic_store(&header_of(channel)->front_attention, RUNG_ALWAYS);
}

static int check_size(const struct convoy_channel_size *size, struct convoy_error *error)
{
    if (size->slots < 1 || size->slots > CONVOY_MAX_SLOTS)
        return convoy_fail(error, -EINVAL, "channel: %u slots, but 1 to %u are possible", size->slots,
                           CONVOY_MAX_SLOTS);
    if (size->input_bytes > CONVOY_SLOT_MAX_BYTES || size->output_bytes > CONVOY_SLOT_MAX_BYTES)
        return convoy_fail(error, -EINVAL,
                           "channel: a slot of %llu + %llu bytes, but at most %u each are possible",
                           (unsigned long long)size->input_bytes, (unsigned long long)size->output_bytes,
                           CONVOY_SLOT_MAX_BYTES);
    return 0;
}

static void close_if_open(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

int convoy_channel_create(struct convoy_channel *channel, struct convoy_error *error)
{
    memset(channel, 0, sizeof *channel);
    channel->memory_fd = memfd_create("convoy-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int pair[2] = {-1, -1};
    if (channel->memory_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        int code = -errno;
        channel->doorbell_fd = channel->worker_doorbell_fd = -1;
        convoy_fail(error, code, "cannot make the channel to a worker: %s", strerror(errno));
        convoy_channel_destroy(channel);
        return code;
    }
    channel->doorbell_fd = pair[0];
    channel->worker_doorbell_fd = pair[1];
    return 0;
}

int convoy_channel_give_doorbell(struct convoy_channel *channel, int doorbell, struct convoy_error *error)
{
    int code = 0;
    /* In one step: a thread that rings with the number that it read before finds the old socket or the new
     * one, never another file. */
    if (dup3(doorbell, channel->doorbell_fd, O_CLOEXEC) < 0)
        code = convoy_fail(error, -errno, "cannot renew the doorbell of a worker: %s", strerror(errno));
    close(doorbell);
    return code;
}

int convoy_channel_renew_doorbell(struct convoy_channel *channel, struct convoy_error *error)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return convoy_fail(error, -errno, "cannot make the doorbell of a worker: %s", strerror(errno));
    int code = convoy_channel_give_doorbell(channel, pair[0], error);
    if (code != 0) {
        close(pair[1]);
        return code;
    }
    close_if_open(&channel->worker_doorbell_fd);
    channel->worker_doorbell_fd = pair[1];
    return 0;
}

int convoy_channel_renew_memory(struct convoy_channel *channel, struct convoy_error *error)
{
    struct convoy_channel fresh = {.memory_fd =
                                       memfd_create("convoy-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                                   .doorbell_fd = -1,
                                   .worker_doorbell_fd = -1};
    if (fresh.memory_fd < 0)
        return convoy_fail(error, -errno, "cannot make other memory for a channel: %s", strerror(errno));
    int code = channel->base != NULL ? convoy_channel_lay_out(&fresh, &channel->size, error) : 0;
    /* In the place of the old pages, which nothing maps any more then. */
    if (code == 0 && channel->base != NULL &&
        mremap(fresh.base, fresh.bytes, fresh.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, channel->base) ==
            MAP_FAILED)
        code = convoy_fail(error, -errno, "cannot map other memory for a channel: %s", strerror(errno));
    else if (code == 0)
        fresh.base = NULL; /* it is the channel's */
    if (code == 0 && dup3(fresh.memory_fd, channel->memory_fd, O_CLOEXEC) < 0)
        code = convoy_fail(error, -errno, "cannot renew the memory of a channel: %s", strerror(errno));
    convoy_channel_destroy(&fresh);
    convoy_channel_reset(channel);
    return code;
}

void convoy_channel_handed_over(struct convoy_channel *channel)
{
    close_if_open(&channel->worker_doorbell_fd);
}

int convoy_channel_lay_out(struct convoy_channel *channel, const struct convoy_channel_size *size,
                           struct convoy_error *error)
{
    int code = check_size(size, error);
    if (code != 0)
        return code;
    size_t bytes = total_bytes(size);
    if (ftruncate(channel->memory_fd, (off_t)bytes) != 0)
        return convoy_fail(error, -errno, "cannot size the channel to %zu bytes: %s", bytes, strerror(errno));
    /* Without the seal a faulty worker could shrink the file, and the front's next access would be a SIGBUS.
     */
    if (fcntl(channel->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return convoy_fail(error, -errno, "cannot seal the channel: %s", strerror(errno));
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, channel->memory_fd, 0);
    if (base == MAP_FAILED)
        return convoy_fail(error, -errno, "cannot map the channel's %zu bytes: %s", bytes, strerror(errno));
    channel->base = base;
    channel->bytes = bytes;
    channel->size = *size;
    struct header *header = header_of(channel);
    header->abi = CONVOY_CHANNEL_ABI;
    header->slots = size->slots;
    header->input_bytes = size->input_bytes;
    header->output_bytes = size->output_bytes;
    header->magic = CHANNEL_MAGIC;
    convoy_channel_reset(channel);
    return 0;
}

/* Maps a memfd that was laid out before, which has to be of this size and ABI. */
static int map(int memory_fd, const struct convoy_channel_size *size, void **base, size_t *bytes,
               struct convoy_error *error)
{
    int code = check_size(size, error);
    if (code != 0)
        return code;
    struct stat status;
    if (fstat(memory_fd, &status) != 0)
        return convoy_fail(error, -errno, "cannot look at the channel's memory: %s", strerror(errno));
    *bytes = total_bytes(size);
    if (status.st_size < 0 || (size_t)status.st_size != *bytes)
        return convoy_fail(error, -EINVAL, "the channel has %lld bytes, but its size says %zu",
                           (long long)status.st_size, *bytes);
    *base = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    if (*base == MAP_FAILED)
        return convoy_fail(error, -errno, "cannot map the channel's %zu bytes: %s", *bytes, strerror(errno));
    const struct header *header = *base;
    if (header->magic != CHANNEL_MAGIC || header->abi != CONVOY_CHANNEL_ABI || header->slots != size->slots) {
        munmap(*base, *bytes);
        return convoy_fail(error, -EINVAL,
                           "the channel is not of ABI %d: front and worker are of different builds",
                           CONVOY_CHANNEL_ABI);
    }
    return 0;
}

int convoy_channel_attach(struct convoy_channel *channel, int memory_fd, int doorbell_fd,
                          const struct convoy_channel_size *size, struct convoy_error *error)
{
    void *base;
    size_t bytes;
    int code = map(memory_fd, size, &base, &bytes, error);
    if (code != 0)
        return code;
    *channel = (struct convoy_channel){.size = *size,
                                       .memory_fd = memory_fd,
                                       .doorbell_fd = doorbell_fd,
                                       .worker_doorbell_fd = -1,
                                       .is_worker = true,
                                       .base = base,
                                       .bytes = bytes};
    ring_always(channel);
    return 0;
}

int convoy_channel_take_over(struct convoy_channel *channel, int memory_fd, int doorbell_fd,
                             const struct convoy_channel_size *size, uint32_t epoch,
                             struct convoy_error *error)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    *channel =
        (struct convoy_channel){.memory_fd = memory_fd, .doorbell_fd = doorbell_fd, .worker_doorbell_fd = -1};
    if ((fcntl(memory_fd, F_GET_SEALS) & seals) != seals)
        return convoy_fail(error, -EINVAL, "the channel of a worker is not sealed");
    int code = map(memory_fd, size, &channel->base, &channel->bytes, error);
    if (code != 0) {
        channel->base = NULL;
        return code;
    }
    channel->size = *size;
    ring_always(channel);
    channel->done_head = atomic_load(&header_of(channel)->done.tail);
    channel->first_generation = epoch << EPOCH_SHIFT;
    return 0;
}

void convoy_channel_pass_by(struct convoy_channel *channel)
{
    ring_always(channel);
    channel->submit_head = atomic_load(&header_of(channel)->submit.tail);
}

void convoy_channel_destroy(struct convoy_channel *channel)
{
    if (channel->base != NULL)
        munmap(channel->base, channel->bytes);
    channel->base = NULL;
    close_if_open(&channel->memory_fd);
    close_if_open(&channel->doorbell_fd);
    close_if_open(&channel->worker_doorbell_fd);
}

void convoy_channel_reset(struct convoy_channel *channel)
{
    if (channel->base != NULL) {
        atomic_store(&header_of(channel)->submit.tail, 0);
        atomic_store(&header_of(channel)->done.tail, 0);
        ring_always(channel);
    }
    channel->done_head = 0;
    channel->submit_head = 0;
}

void convoy_channel_exchange_outputs(struct convoy_channel *channel)
{
    channel->turn = 1 - channel->turn;
}

struct convoy_slot *convoy_channel_slot(const struct convoy_channel *channel, uint32_t slot)
{
    return (struct convoy_slot *)((uint8_t *)channel->base + slots_offset()) + slot;
}

struct convoy_slot_report *convoy_channel_report(const struct convoy_channel *channel, uint32_t slot)
{
    uint8_t *reports = (uint8_t *)channel->base + reports_offset(channel->size.slots);
    return (struct convoy_slot_report *)reports + slot;
}

float *convoy_channel_class_map(const struct convoy_channel *channel, uint32_t slot)
{
    uint8_t *maps = (uint8_t *)channel->base + maps_offset(channel->size.slots);
    return (float *)(void *)maps + (size_t)slot * CONVOY_MAX_CLASS_MAP;
}

uint8_t *convoy_channel_rows(const struct convoy_channel *channel, uint32_t slot)
{
    return (uint8_t *)channel->base + data_offset(channel->size.slots) + slot * slot_stride(&channel->size);
}

uint8_t *convoy_channel_outputs(const struct convoy_channel *channel, uint32_t slot)
{
    return convoy_channel_rows(channel, slot) + round_to_page(channel->size.input_bytes) +
           channel->turn * round_to_page(channel->size.output_bytes);
}

static atomic_uint *own_attention(const struct convoy_channel *channel)
{
    struct header *header = header_of(channel);
    return channel->is_worker ? &header->worker_attention : &header->front_attention;
}

void convoy_channel_attend(struct convoy_channel *channel, bool attends)
{
    if (channel->base != NULL)
        atomic_store_explicit(own_attention(channel), attends ? ATTENDS : RUNG_ALWAYS, memory_order_relaxed);
}

bool convoy_channel_pending(const struct convoy_channel *channel)
{
    if (channel->base == NULL)
        return false;
    struct header *header = header_of(channel);
    struct ring *ring = channel->is_worker ? &header->submit : &header->done;
    uint32_t head = channel->is_worker ? channel->submit_head : channel->done_head;
    return atomic_load_explicit(&ring->tail, memory_order_acquire) != head;
}

bool convoy_channel_sleep(struct convoy_channel *channel)
{
    if (channel->base == NULL)
        return true;
    atomic_store_explicit(own_attention(channel), SLEEPS, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* meets that of is_to_be_rung() */
    if (!convoy_channel_pending(channel))
        return true;
    convoy_channel_attend(channel, true);
    return false;
}

static void ring_doorbell(int fd)
{
    /* Where the socket is full the other end has not looked yet, and will; where it is closed, it is gone. */
    ssize_t sent = send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent;
}

/* What the other end is to look at was queued before. */
static bool is_to_be_rung(const struct convoy_channel *channel)
{
    if (channel->base == NULL)
        return true;
    struct header *header = header_of(channel);
    atomic_uint *attention = channel->is_worker ? &header->front_attention : &header->worker_attention;
    unsigned sleeps = SLEEPS;
    atomic_thread_fence(memory_order_seq_cst); /* meets that of convoy_channel_sleep() */
    unsigned now = atomic_load_explicit(attention, memory_order_relaxed);
    if (now == SLEEPS && !atomic_compare_exchange_strong(attention, &sleeps, ATTENDS))
        now = sleeps; /* another thread rings, or it has woken */
    return now != ATTENDS;
}

bool convoy_channel_clear_doorbell(int doorbell)
{
    /* Once only: an end that rings without end would keep the other one here. A socket with its default
     * buffer is full after some 300 rings. */
    char rings[512];
    return recv(doorbell, rings, sizeof rings, MSG_DONTWAIT) > 0;
}

static void push(struct ring *ring, const struct convoy_done *entry)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    ring->entries[tail % RING_ENTRIES] = *entry;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
}

static bool take(struct ring *ring, uint32_t *head, struct convoy_done *entry)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    if (tail == *head)
        return false;
    /* Only a broken peer moves the tail further than the ring is long: take the newest entries, each once. */
    if (tail - *head > RING_ENTRIES)
        *head = tail - RING_ENTRIES;
    *entry = ring->entries[*head % RING_ENTRIES];
    *head += 1;
    return true;
}

void convoy_channel_submit(struct convoy_channel *channel, uint32_t slot)
{
    push(&header_of(channel)->submit, &(struct convoy_done){.slot = slot});
}

void convoy_channel_ring(struct convoy_channel *channel)
{
    if (is_to_be_rung(channel))
        ring_doorbell(channel->doorbell_fd);
}

bool convoy_channel_take_submitted(struct convoy_channel *channel, uint32_t *slot)
{
    struct convoy_done entry;
    if (!take(&header_of(channel)->submit, &channel->submit_head, &entry))
        return false;
    *slot = entry.slot;
    return true;
}

void convoy_channel_finish(struct convoy_channel *channel, const struct convoy_done *done)
{
    push(&header_of(channel)->done, done);
    convoy_channel_ring(channel);
}

void convoy_channel_progress(struct convoy_channel *channel)
{
    atomic_fetch_add_explicit(&header_of(channel)->progress, 1, memory_order_relaxed);
}

uint32_t convoy_channel_progress_count(const struct convoy_channel *channel)
{
    return channel->base != NULL ? atomic_load_explicit(&header_of(channel)->progress, memory_order_relaxed)
                                 : 0;
}

bool convoy_channel_take_done(struct convoy_channel *channel, struct convoy_done *done)
{
    return take(&header_of(channel)->done, &channel->done_head, done);
}
