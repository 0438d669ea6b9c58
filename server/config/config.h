/* The daemon's configuration: convoyd.json over built-in values; docs/configuration.md describes each key.
 *
 * The file is --config, else ./config/convoyd.json, else PREFIX/etc/convoyd/convoyd.json (PREFIX: the folder
 * above the program's own), else there is none and the built-in values hold. Unknown keys, duplicate keys,
 * wrong types and values out of range are errors that name the key and the file.
 *
 * Threads: a configuration does not change once it is loaded; any thread may read it. SIGHUP loads another
 * one and takes from it what may change (log, labels, batching delays). */
#ifndef CONVOY_SERVER_CONFIG_H
#define CONVOY_SERVER_CONFIG_H

#include "engine/base/error.h"
#include "engine/base/log.h"
#include "server/config/access_config.h"
#include "server/config/listen_address.h"
#include "server/config/proxy_config.h"
#include "server/config/shared_memory_config.h"
#include "server/config/tls_config.h"
#include "server/config/tracing_config.h"
#include "server/config/web_config.h"
#include "server/config/worker_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum convoy_backend_choice {
    CONVOY_BACKEND_AUTO, /* every GPU, or the CPU where there is none */
    CONVOY_BACKEND_CPU,
    CONVOY_BACKEND_CUDA,
    CONVOY_BACKEND_NULL
};

enum convoy_tune { CONVOY_TUNE_ON, CONVOY_TUNE_OFF, CONVOY_TUNE_FORCE };

/* Which JPEG images are decoded in a part of their size: none, those that stay at least twice as large as
 * they are resized to, or at least as large. */
enum convoy_scaling { CONVOY_SCALING_OFF, CONVOY_SCALING_AUTO, CONVOY_SCALING_ALWAYS };
/* Who decodes a JPEG file that the device can decode: the device where that spares much, the front, the
 * device always, or the device while the front's threads are busy (server/inference/decoder_choice.h). */
enum convoy_image_decoder {
    CONVOY_IMAGE_DECODER_AUTO,
    CONVOY_IMAGE_DECODER_CPU,
    CONVOY_IMAGE_DECODER_GPU,
    CONVOY_IMAGE_DECODER_FASTEST
};
/* As they are written, by number; ends with NULL. */
extern const char *const convoy_image_decoder_texts[];

/* Which answers get a line in the log. */
enum convoy_access_log { CONVOY_ACCESS_OFF, CONVOY_ACCESS_SAMPLED, CONVOY_ACCESS_ALL };

/* What decides which models are served. */
enum convoy_model_control {
    CONVOY_CONTROL_NONE,    /* those found at start */
    CONVOY_CONTROL_POLL,    /* those that the folder holds, which is scanned every poll_ms */
    CONVOY_CONTROL_EXPLICIT /* those loaded by POST /v2/repository/models/NAME/load */
};

#define CONVOY_MAX_BATCH 4096 /* most that max_batch may be set to */

/* Bytes that response_cache.bytes may be set to, besides 0. */
#define CONVOY_RESPONSE_CACHE_LEAST (UINT64_C(64) << 10)
#define CONVOY_RESPONSE_CACHE_MOST  (UINT64_C(1) << 40)

/* Of one model, or the default for all. */
struct convoy_batching {
    uint32_t max_batch;    /* images */
    uint32_t max_delay_us; /* that an image waits for others while the device is busy */
    uint32_t max_queue;    /* images waiting, per model; past it requests get 503 */
    uint32_t weight;       /* of the model's share of the device while other models wait, too */
};

/* Member names are the keys. Strings belong to the configuration. */
struct convoy_config {
    char *file; /* what was read; NULL when the built-in values hold */

    struct convoy_listen_addresses listen; /* at least one */
    uint32_t listen_mode;                  /* of the file of a Unix socket */
    char *health_listen,
        *health_host; /* as one of the above over TCP, for health and metrics alone; NULL: none */
    uint16_t health_port;
    struct convoy_access_config access; /* auth, limits, admin_listen, http.cors_origins */
    char *models;                       /* folder, relative to the current directory */
    char *default_model;                /* or NULL */
    struct {
        enum convoy_model_control control;
        uint32_t poll_ms;      /* how often the folder is scanned */
        char **load_at_start;  /* names, where control is explicit; ends with NULL; NULL: none */
        uint64_t device_bytes; /* of weights that models may take of a device together; 0: no limit */
        bool unload_idle;      /* past that limit, the model that was used least recently makes room */
    } repository;
    enum convoy_backend_choice backend;
    struct {
        uint32_t threads;                              /* 0: by the cores */
        uint32_t connections, connections_per_address; /* the latter 0: three quarters of the former */
        uint32_t idle_timeout_ms, request_timeout_ms;
        uint32_t max_header_bytes;
        uint64_t max_body_bytes;
        bool half_close; /* a client that closes its sending side waits for its answer */
        char **hosts; /* names in Host under which a page of this server may change it; ends with NULL; NULL:
                         none */
        struct convoy_proxy_config proxy;
    } http;
    struct convoy_tls_config tls;
    struct {
        uint64_t max_pixels;
        uint32_t max_per_request;
        enum convoy_scaling scaled_decoding;
        enum convoy_image_decoder decoder;
    } images;
    struct convoy_batching batching;
    struct {
        uint64_t bytes; /* 0: no cache */
    } response_cache;
    uint32_t timeout_ms, timeout_max_ms, drain_ms, drain_timeout_ms, ready_grace_ms;
    struct convoy_worker_config worker;
    char *cache_dir; /* or NULL */
    enum convoy_tune tune;
    struct convoy_shared_memory_config shared_memory;
    struct convoy_web_config web;
    struct convoy_tracing_config tracing;
    struct {
        enum convoy_log_format format;
        enum convoy_log_level level;
        enum convoy_access_log access;
    } log;
};

/* Reads path, or searches for a file (config_search.h) when it is NULL. The caller frees *config with
 * convoy_config_free(). -EINVAL for what the file says, -ENOENT and others of open(2) for a file that cannot
 * be read, -ENOMEM. */
int convoy_config_load(const char *path, struct convoy_config **config, struct convoy_error *error);

/* The built-in values. Returns NULL when memory is out. */
struct convoy_config *convoy_config_default(void);

void convoy_config_free(struct convoy_config *config); /* NULL is allowed */

/* Reads the object "batching" of a daemon's or a model's file over what *batching holds. */
struct convoy_json;
int convoy_batching_read(const struct convoy_json *root, struct convoy_batching *batching,
                         struct convoy_error *error);

/* "auto", "cpu", ... as in the file. */
const char *convoy_backend_choice_text(enum convoy_backend_choice choice);

/* NULL-terminated, in the order of the enums; for the command line and the file. */
extern const char *const convoy_backend_choices[];
extern const char *const convoy_model_controls[];
extern const char *const convoy_tune_choices[];

#endif
