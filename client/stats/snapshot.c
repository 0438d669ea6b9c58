#include "client/stats/snapshot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"

const char *const client_snapshot_stage_names[CLIENT_SNAPSHOT_STAGES] = {
    [CLIENT_SNAPSHOT_REQUEST] = "request", [CLIENT_SNAPSHOT_DECODE] = "decode",
    [CLIENT_SNAPSHOT_QUEUE] = "queue",     [CLIENT_SNAPSHOT_INPUT] = "input",
    [CLIENT_SNAPSHOT_COMPUTE] = "compute", [CLIENT_SNAPSHOT_OUTPUT] = "output",
};

#define LONGER(a, b) ((a) > (b) ? (a) : (b))

/* Models or devices in the making. What is read may name thousands of them in any order, a million times:
 * they are found by halving. */
struct list {
    char *entries; /* the first member of an entry is its name */
    size_t size;   /* of an entry */
    size_t count, capacity, most;
    unsigned short
        by_name[LONGER(CLIENT_SNAPSHOT_MODELS, CLIENT_SNAPSHOT_DEVICES)]; /* indices in the order of names */
};

/* A snapshot while it is built. */
struct making {
    struct client_snapshot *snapshot;
    struct list models, devices;
    struct client_snapshot_model *model; /* the previous sample's model: samples are grouped by model */
    bool out_of_memory;
};

static const char *name_at(const struct list *list, size_t place)
{
    const char *name;
    memcpy(&name, list->entries + list->by_name[place] * list->size, sizeof name);
    return name;
}

/* Returns the place of the name in by_name, or where to insert it. */
static size_t place_of(const struct list *list, const char *name, bool *found)
{
    size_t low = 0, high = list->count;
    *found = false;
    while (low < high && !*found) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, name_at(list, middle));
        *found = order == 0;
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return high;
}

/* The entry of that name, made where there is none; NULL for "", when the list has the most that is kept, or
 * when memory is out. */
static void *entry_of(struct making *making, struct list *list, const char *name)
{
    bool found;
    if (!*name)
        return NULL;
    size_t place = place_of(list, name, &found);
    if (found)
        return list->entries + list->by_name[place] * list->size;
    if (list->count == list->most)
        return NULL;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity * 2 + 8;
        void *grown = realloc(list->entries, capacity * list->size);
        if (!grown) {
            making->out_of_memory = true;
            return NULL;
        }
        list->entries = grown;
        list->capacity = capacity;
    }
    char *entry = list->entries + list->count * list->size;
    memset(entry, 0, list->size);
    memcpy(entry, &name, sizeof name);
    memmove(&list->by_name[place + 1], &list->by_name[place], (list->count - place) * sizeof *list->by_name);
    list->by_name[place] = (unsigned short)list->count++;
    return entry;
}

static struct client_snapshot_model *model_of(struct making *making, const struct client_sample *sample)
{
    const char *name = client_sample_label(sample, "model");
    if (!making->model || strcmp(making->model->name, name) != 0)
        making->model = entry_of(making, &making->models, name);
    return making->model;
}

static struct client_snapshot_device *device_of(struct making *making, const struct client_sample *sample)
{
    return entry_of(making, &making->devices, client_sample_label(sample, "device"));
}

static void add_named(struct client_named_list *list, const char *name, double value)
{
    if (list->count < CLIENT_SNAPSHOT_VERSIONS)
        list->entries[list->count++] = (struct client_named){name, value};
}

/* The entry's number, added as 0 where it is missing; *lost where it does not fit. */
static double *named(struct client_named_list *list, const char *name, double *lost)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->entries[i].name, name) == 0)
            return &list->entries[i].value;
    if (list->count == CLIENT_SNAPSHOT_VERSIONS)
        return lost;
    list->entries[list->count] = (struct client_named){name, 0};
    return &list->entries[list->count++].value;
}

/* Finds "compute_seconds" and its like by name; NULL when it is not a model's histogram. */
static struct client_histogram *histogram_of(struct client_snapshot_model *model, const char *name,
                                             size_t length)
{
    static const char unit[] = "_seconds";
    if (length == strlen("batch_size") && memcmp(name, "batch_size", length) == 0)
        return &model->sizes;
    for (int i = 0; i < CLIENT_SNAPSHOT_STAGES; i++) {
        size_t stage = strlen(client_snapshot_stage_names[i]);
        if (length == stage + strlen(unit) && memcmp(name, client_snapshot_stage_names[i], stage) == 0 &&
            memcmp(name + stage, unit, strlen(unit)) == 0)
            return &model->stages[i];
    }
    return NULL;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), part = strlen(end);
    return length >= part && strcmp(text + length - part, end) == 0;
}

/* Adds a sample to a histogram; name is without "convoyd_". */
static void take_histogram(struct making *making, const char *name, const struct client_sample *sample)
{
    struct client_snapshot_model *model = model_of(making, sample);
    size_t length = strlen(name);
    bool bucket = ends_with(name, "_bucket");
    if (!model || (!bucket && !ends_with(name, "_sum")))
        return;
    struct client_histogram *histogram =
        histogram_of(model, name, length - strlen(bucket ? "_bucket" : "_sum"));
    if (!histogram)
        return;
    if (!bucket) {
        histogram->sum = isfinite(sample->value) && sample->value >= 0 ? sample->value : 0;
        return;
    }
    const char *text = client_sample_label(sample, "le");
    char *end;
    double bound = strtod(text, &end);
    client_histogram_add(histogram, end == text || *end ? NAN : bound, sample->value);
}

static void take_request(struct making *making, const struct client_sample *sample, double value)
{
    const char *route = client_sample_label(sample, "route");
    char *end;
    const char *text = client_sample_label(sample, "status");
    long status = strtol(text, &end, 10);
    if ((!ends_with(route, "/classify") && !ends_with(route, "/infer")) || end == text || *end ||
        status < 0 || status >= CLIENT_SNAPSHOT_STATUSES)
        return;
    making->snapshot->statuses[status] += value;
    struct client_snapshot_model *model = model_of(making, sample);
    if (!model)
        return;
    model->requests += value;
    model->failed += status == 200 ? 0 : value;
}

static void take_device(struct making *making, const char *name, const struct client_sample *sample,
                        double value)
{
    struct client_snapshot_device *device = device_of(making, sample);
    double lost = 0;
    if (!device)
        return;
    /* A device has several workers where each is for one model: up when one is. */
    if (strcmp(name, "worker_up") == 0) {
        device->known = true;
        device->up = device->up || value > 0;
    } else if (strcmp(name, "worker_restarts_total") == 0) {
        *named(&device->restarts, client_sample_label(sample, "reason"), &lost) += value;
    } else {
        const char *kind = client_sample_label(sample, "kind");
        double *bytes = named(&device->memory, kind, &lost);
        bool of_device =
            strcmp(kind, "free") == 0 || strcmp(kind, "total") == 0; /* all workers say the same */
        *bytes = of_device ? fmax(*bytes, value) : *bytes + value;
    }
}

/* What is said of a device's health; false when name is nothing of that. */
static bool take_health(struct making *making, const char *name, const struct client_sample *sample,
                        double value)
{
    static const struct {
        const char *name, *label; /* label: whose value names the number; NULL: as there */
        const char *as;
        size_t list;
    } families[] = {
        {"gpu_utilization_ratio", "engine", NULL, offsetof(struct client_snapshot_device, utilization)},
        {"gpu_memory_bytes", "kind", NULL, offsetof(struct client_snapshot_device, used_memory)},
        {"gpu_ecc_uncorrected_errors_total", "lifetime", NULL, offsetof(struct client_snapshot_device, ecc)},
        {"gpu_throttled", "reason", NULL, offsetof(struct client_snapshot_device, throttled)},
        {"gpu_temperature_celsius", NULL, "temperature_celsius",
         offsetof(struct client_snapshot_device, health)},
        {"gpu_power_watts", NULL, "power_watts", offsetof(struct client_snapshot_device, health)},
        {"gpu_power_limit_watts", NULL, "power_limit_watts", offsetof(struct client_snapshot_device, health)},
        {"gpu_xid_errors_total", NULL, "xid_errors", offsetof(struct client_snapshot_device, health)},
        {"gpu_last_xid", NULL, "last_xid", offsetof(struct client_snapshot_device, health)},
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(name, families[i].name) != 0)
            continue;
        struct client_snapshot_device *device = device_of(making, sample);
        bool shown = strcmp(name, "gpu_throttled") != 0 || value > 0;
        if (device && shown)
            add_named((struct client_named_list *)(void *)((char *)device + families[i].list),
                      families[i].label ? client_sample_label(sample, families[i].label) : families[i].as,
                      value);
        return true;
    }
    return false;
}

static void take_batches(struct making *making, const struct client_sample *sample, double value)
{
    struct client_snapshot_model *model = model_of(making, sample);
    struct client_snapshot_device *device = device_of(making, sample);
    if (model)
        model->batches += value;
    if (device)
        device->batches += value;
}

/* Sets a plain number of a model; false when name is not one. */
static bool take_model(struct making *making, const char *name, const struct client_sample *sample,
                       double value)
{
    static const struct {
        const char *name;
        size_t offset;
    } numbers[] = {
        {"images_total", offsetof(struct client_snapshot_model, images)},
        {"retried_images_total", offsetof(struct client_snapshot_model, retried)},
        {"queue_images", offsetof(struct client_snapshot_model, queue)},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct client_snapshot_model *model =
            strcmp(name, numbers[i].name) == 0 ? model_of(making, sample) : NULL;
        if (model) {
            *(double *)((char *)model + numbers[i].offset) += value;
            return true;
        }
    }
    return false;
}

static void take_sample(struct making *making, const struct client_sample *sample)
{
    const char *name = sample->name + strlen("convoyd_");
    /* NaN and negative numbers count as 0. */
    double value = isfinite(sample->value) && sample->value > 0 ? sample->value : 0;
    struct client_snapshot_model *model;
    if (take_model(making, name, sample, value) ||
        (strncmp(name, "gpu_", 4) == 0 && take_health(making, name, sample, value)))
        return;
    if (strcmp(name, "build_info") == 0)
        making->snapshot->version = client_sample_label(sample, "version");
    else if (strcmp(name, "requests_total") == 0)
        take_request(making, sample, value);
    else if (strcmp(name, "batches_total") == 0)
        take_batches(making, sample, value);
    else if (strcmp(name, "slots_in_use") == 0)
        making->snapshot->slots = value;
    else if (strcmp(name, "worker_up") == 0 || strcmp(name, "worker_restarts_total") == 0 ||
             strcmp(name, "device_memory_bytes") == 0)
        take_device(making, name, sample, value);
    else if (strcmp(name, "model_ready") == 0 && (model = model_of(making, sample)))
        add_named(&model->versions, client_sample_label(sample, "version"), value > 0);
    else
        take_histogram(making, name, sample);
}

static int by_model_name(const void *left, const void *right)
{
    const struct client_snapshot_model *a = left, *b = right;
    return strcmp(a->name, b->name);
}

static int by_device_name(const void *left, const void *right)
{
    const struct client_snapshot_device *a = left, *b = right;
    return strverscmp(a->name, b->name);
}

int client_snapshot_read(const struct client_exposition *exposition, struct client_snapshot *snapshot,
                         struct convoy_failure *failure)
{
    struct making making = {
        .snapshot = snapshot,
        .models = {.size = sizeof *snapshot->models, .most = CLIENT_SNAPSHOT_MODELS},
        .devices = {.size = sizeof *snapshot->devices, .most = CLIENT_SNAPSHOT_DEVICES},
    };
    bool ours = false;
    memset(snapshot, 0, sizeof *snapshot);
    snapshot->version = "";
    snapshot->slots = NAN;
    for (size_t i = 0; i < exposition->count && !making.out_of_memory; i++) {
        if (strncmp(exposition->samples[i].name, "convoyd_", strlen("convoyd_")) != 0)
            continue;
        ours = true;
        take_sample(&making, &exposition->samples[i]);
    }
    snapshot->models = (struct client_snapshot_model *)making.models.entries;
    snapshot->model_count = making.models.count;
    snapshot->devices = (struct client_snapshot_device *)making.devices.entries;
    snapshot->device_count = making.devices.count;
    if (making.out_of_memory)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    if (!ours)
        return client_fail_with(failure, -EPROTO,
                                "the answer to /metrics is not a convoyd's: it has no metric of one; is the "
                                "URL right?");
    if (snapshot->model_count)
        qsort(snapshot->models, snapshot->model_count, sizeof *snapshot->models, by_model_name);
    if (snapshot->device_count)
        qsort(snapshot->devices, snapshot->device_count, sizeof *snapshot->devices, by_device_name);
    return 0;
}

static const struct client_snapshot_model *same_model(const struct client_snapshot *snapshot,
                                                      const char *name)
{
    const struct client_snapshot_model wanted = {.name = name};
    return snapshot->model_count ? bsearch(&wanted, snapshot->models, snapshot->model_count,
                                           sizeof *snapshot->models, by_model_name)
                                 : NULL;
}

static const struct client_snapshot_device *same_device(const struct client_snapshot *snapshot,
                                                        const char *name)
{
    const struct client_snapshot_device wanted = {.name = name};
    return snapshot->device_count ? bsearch(&wanted, snapshot->devices, snapshot->device_count,
                                            sizeof *snapshot->devices, by_device_name)
                                  : NULL;
}

static bool fell(const struct client_histogram *earlier, const struct client_histogram *later)
{
    return client_histogram_total(later) < client_histogram_total(earlier);
}

bool client_snapshot_restarted(const struct client_snapshot *earlier, const struct client_snapshot *later)
{
    for (int status = 0; status < CLIENT_SNAPSHOT_STATUSES; status++)
        if (later->statuses[status] < earlier->statuses[status])
            return true;
    for (size_t i = 0; i < earlier->model_count; i++) {
        const struct client_snapshot_model *then = &earlier->models[i], *now = same_model(later, then->name);
        if (!now || now->images < then->images || now->batches < then->batches ||
            now->retried < then->retried || now->requests < then->requests || now->failed < then->failed ||
            fell(&then->sizes, &now->sizes))
            return true;
        for (int stage = 0; stage < CLIENT_SNAPSHOT_STAGES; stage++)
            if (fell(&then->stages[stage], &now->stages[stage]))
                return true;
    }
    for (size_t i = 0; i < earlier->device_count; i++) {
        const struct client_snapshot_device *now = same_device(later, earlier->devices[i].name);
        if (!now || now->batches < earlier->devices[i].batches)
            return true;
    }
    return false;
}

static void lower(double *later, double earlier)
{
    *later = *later > earlier ? *later - earlier : 0;
}

void client_snapshot_subtract(const struct client_snapshot *earlier, struct client_snapshot *later)
{
    struct client_histogram difference;
    for (int status = 0; status < CLIENT_SNAPSHOT_STATUSES; status++)
        lower(&later->statuses[status], earlier->statuses[status]);
    for (size_t i = 0; i < later->model_count; i++) {
        struct client_snapshot_model *now = &later->models[i];
        const struct client_snapshot_model *then = same_model(earlier, now->name);
        if (!then)
            continue;
        lower(&now->requests, then->requests);
        lower(&now->failed, then->failed);
        lower(&now->images, then->images);
        lower(&now->batches, then->batches);
        for (int stage = 0; stage < CLIENT_SNAPSHOT_STAGES; stage++) {
            client_histogram_since(&then->stages[stage], &now->stages[stage], &difference);
            now->stages[stage] = difference;
        }
        client_histogram_since(&then->sizes, &now->sizes, &difference);
        now->sizes = difference;
    }
    for (size_t i = 0; i < later->device_count; i++) {
        const struct client_snapshot_device *then = same_device(earlier, later->devices[i].name);
        if (then)
            lower(&later->devices[i].batches, then->batches);
    }
}

void client_snapshot_requests(const struct client_snapshot *snapshot, double *requests, double *failed)
{
    *requests = *failed = 0;
    for (int status = 0; status < CLIENT_SNAPSHOT_STATUSES; status++) {
        *requests += snapshot->statuses[status];
        *failed += status == 200 ? 0 : snapshot->statuses[status];
    }
}

double client_snapshot_images(const struct client_snapshot *snapshot)
{
    double images = 0;
    for (size_t i = 0; i < snapshot->model_count; i++)
        images += snapshot->models[i].images;
    return images;
}

void client_snapshot_clear(struct client_snapshot *snapshot)
{
    free(snapshot->models);
    free(snapshot->devices);
    memset(snapshot, 0, sizeof *snapshot);
}
