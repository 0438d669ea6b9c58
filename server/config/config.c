#include "server/config/config.h"

#include "engine/base/json.h"
#include "server/config/config_search.h"
#include "server/config/model_name.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS  86400000u
#define HOUR_MS 3600000u

#define LEAST_POLL_MS 50u

const char *const convoy_backend_choices[] = {"auto", "cpu", "cuda", "null", NULL};
const char *const convoy_image_decoder_texts[] = {"auto", "cpu", "gpu", "fastest", NULL};
static const char *const scaling_choices[] = {"off", "auto", "always", NULL};
const char *const convoy_tune_choices[] = {"on", "off", "force", NULL};
const char *const convoy_model_controls[] = {"none", "poll", "explicit", NULL};
static const char *const log_formats[] = {"logfmt", "json", NULL};
static const char *const log_levels[] = {"debug", "info", "warning", "error", NULL};
static const char *const access_logs[] = {"off", "sampled", "all", NULL};

const char *convoy_backend_choice_text(enum convoy_backend_choice choice)
{
    return convoy_backend_choices[choice];
}

struct convoy_config *convoy_config_default(void)
{
    struct convoy_config *config = calloc(1, sizeof *config);
    if (config == NULL)
        return NULL;
    struct convoy_error error;
    int listens = convoy_listen_add("listen", "127.0.0.1:8080", &config->listen, &error);
    config->listen_mode = 0660;
    config->models = strdup("models");
    config->backend = CONVOY_BACKEND_AUTO;
    config->http.connections = 16384;
    config->http.idle_timeout_ms = 60000;
    config->http.request_timeout_ms = 30000;
    config->http.max_header_bytes = 16384;
    config->http.max_body_bytes = 33554432;
    config->images.scaled_decoding = CONVOY_SCALING_AUTO;
    config->images.max_pixels = 50000000;
    config->images.max_per_request = 1024;
    config->batching =
        (struct convoy_batching){.max_batch = 256, .max_delay_us = 500, .max_queue = 4096, .weight = 1};
    config->timeout_ms = 10000;
    config->timeout_max_ms = 600000;
    config->drain_timeout_ms = 30000;
    config->ready_grace_ms = 2000;
    config->repository.control = CONVOY_CONTROL_NONE;
    config->repository.poll_ms = 2000;
    config->worker = convoy_worker_config_default;
    config->tune = CONVOY_TUNE_ON;
    config->web.enabled = true;
    config->tracing.sample = 0.01;
    config->log.format = CONVOY_LOG_LOGFMT;
    config->log.level = CONVOY_LOG_INFO;
    if (!convoy_access_config_default(&config->access) || listens != 0 || config->models == NULL) {
        convoy_config_free(config);
        return NULL;
    }
    return config;
}

void convoy_config_free(struct convoy_config *config)
{
    if (config == NULL)
        return;
    free(config->file);
    convoy_listen_clear(&config->listen);
    free(config->health_listen);
    free(config->health_host);
    free(config->models);
    free(config->default_model);
    free(config->cache_dir);
    convoy_tls_config_clear(&config->tls);
    convoy_tracing_config_clear(&config->tracing);
    convoy_shared_memory_config_clear(&config->shared_memory);
    convoy_json_strings_free(config->repository.load_at_start);
    convoy_json_strings_free(config->http.hosts);
    convoy_worker_config_clear(&config->worker);
    convoy_access_config_free(&config->access);
    convoy_proxy_config_clear(&config->http.proxy);
    free(config);
}

/* Puts a copy of text into *field; text NULL clears it. */
static int replace(char **field, const char *text, const char *file, struct convoy_error *error)
{
    char *copy = text != NULL ? strdup(text) : NULL;
    if (text != NULL && copy == NULL)
        return convoy_fail(error, -ENOMEM, "%s: out of memory", file);
    free(*field);
    *field = copy;
    return 0;
}

/* Reads an address; null (then *written is NULL) only where there is none by default. */
static int read_address(const struct convoy_json *root, const char *key, char **written, char **host,
                        uint16_t *port, struct convoy_error *error)
{
    const char *text = *written;
    int result = *written != NULL ? convoy_json_string(root, key, &text, error)
                                  : convoy_json_string_or_null(root, key, &text, error);
    if (result < 0 || text == *written)
        return result;
    char origin[PATH_MAX + 32], *parsed = NULL;
    snprintf(origin, sizeof origin, "%s: %s", root->file, key);
    result = convoy_listen_parse(origin, text, &parsed, port, error);
    if (result < 0)
        return result;
    free(*host);
    *host = parsed;
    return replace(written, text, root->file, error);
}

static int read_names(const struct convoy_json *root, struct convoy_config *config,
                      struct convoy_error *error)
{
    const char *models = config->models, *default_model = NULL, *cache_dir = NULL;
    int result;
    if ((result = convoy_json_string(root, "models", &models, error)) < 0 ||
        (result = convoy_json_string_or_null(root, "default_model", &default_model, error)) < 0 ||
        (result = convoy_json_string_or_null(root, "cache_dir", &cache_dir, error)) < 0)
        return result;
    if (models[0] == '\0')
        return convoy_fail(error, -EINVAL, "%s: models must name a folder, found \"\"", root->file);
    if (cache_dir != NULL && cache_dir[0] == '\0')
        return convoy_fail(error, -EINVAL, "%s: cache_dir must name a folder or be null, found \"\"",
                           root->file);
    if (default_model != NULL && !convoy_model_name_valid(default_model))
        return convoy_fail(
            error, -EINVAL,
            "%s: default_model must be a model's name (letters, digits, '.', '_', '-') or null, "
            "found \"%s\"",
            root->file, default_model);
    if (models != config->models && (result = replace(&config->models, models, root->file, error)) < 0)
        return result;
    if ((result = replace(&config->default_model, default_model, root->file, error)) < 0)
        return result;
    return replace(&config->cache_dir, cache_dir, root->file, error);
}

static int read_choices(const struct convoy_json *root, struct convoy_config *config,
                        struct convoy_error *error)
{
    static const char *const known[] = {"format", "level", "access", NULL};
    unsigned backend = config->backend, tune = config->tune;
    unsigned format = config->log.format, level = config->log.level, access = config->log.access;
    struct convoy_json log;
    int result;
    if ((result = convoy_json_choice(root, "backend", convoy_backend_choices, &backend, error)) < 0 ||
        (result = convoy_json_choice(root, "tune", convoy_tune_choices, &tune, error)) < 0 ||
        (result = convoy_json_object(root, "log", &log, error)) < 0 ||
        (result = convoy_json_known(&log, known, error)) < 0 ||
        (result = convoy_json_choice(&log, "format", log_formats, &format, error)) < 0 ||
        (result = convoy_json_choice(&log, "level", log_levels, &level, error)) < 0 ||
        (result = convoy_json_choice(&log, "access", access_logs, &access, error)) < 0)
        return result;
    config->backend = (enum convoy_backend_choice)backend;
    config->tune = (enum convoy_tune)tune;
    config->log.format = (enum convoy_log_format)format;
    config->log.level = (enum convoy_log_level)level;
    config->log.access = (enum convoy_access_log)access;
    return 0;
}

static int read_http(const struct convoy_json *root, struct convoy_config *config, struct convoy_error *error)
{
    static const char *const known[] = {"threads",
                                        "connections",
                                        "idle_timeout_ms",
                                        "request_timeout_ms",
                                        "max_header_bytes",
                                        "max_body_bytes",
                                        "hosts",
                                        "connections_per_address",
                                        "half_close",
                                        "cors_origins",
                                        "trusted_proxies",
                                        "forwarded_header",
                                        NULL};
    struct convoy_json http;
    int result;
    if ((result = convoy_json_object(root, "http", &http, error)) < 0 ||
        (result = convoy_json_known(&http, known, error)) < 0 ||
        (result = convoy_proxy_config_read(&http, &config->http.proxy, error)) < 0 ||
        (result = convoy_json_uint32(&http, "threads", 0, 1024, &config->http.threads, error)) < 0 ||
        (result = convoy_json_uint32(&http, "connections", 1, 1000000, &config->http.connections, error)) <
            0 ||
        (result = convoy_json_uint32(&http, "connections_per_address", 0, 1000000,
                                     &config->http.connections_per_address, error)) < 0 ||
        (result = convoy_json_bool(&http, "half_close", &config->http.half_close, error)) < 0 ||
        (result = convoy_json_uint32(&http, "idle_timeout_ms", 1, DAY_MS, &config->http.idle_timeout_ms,
                                     error)) < 0 ||
        (result = convoy_json_uint32(&http, "request_timeout_ms", 1, DAY_MS, &config->http.request_timeout_ms,
                                     error)) < 0 ||
        (result = convoy_json_uint32(&http, "max_header_bytes", 1024, 1u << 20,
                                     &config->http.max_header_bytes, error)) < 0 ||
        (result = convoy_json_uint64(&http, "max_body_bytes", 1, 1u << 30, &config->http.max_body_bytes,
                                     error)) < 0 ||
        (result = convoy_access_config_read_http(&http, &config->access, &config->http.hosts, error)) < 0)
        return result;
    return 0;
}

static int read_images(const struct convoy_json *root, struct convoy_config *config,
                       struct convoy_error *error)
{
    static const char *const known[] = {"max_pixels", "max_per_request", "scaled_decoding", "decoder", NULL};
    unsigned scaling = config->images.scaled_decoding, decoder = config->images.decoder;
    struct convoy_json images;
    int result;
    if ((result = convoy_json_object(root, "images", &images, error)) < 0 ||
        (result = convoy_json_known(&images, known, error)) < 0 ||
        (result = convoy_json_uint64(&images, "max_pixels", 1, 1000000000, &config->images.max_pixels,
                                     error)) < 0 ||
        (result = convoy_json_uint32(&images, "max_per_request", 1, 65536, &config->images.max_per_request,
                                     error)) < 0 ||
        (result = convoy_json_choice(&images, "scaled_decoding", scaling_choices, &scaling, error)) < 0 ||
        (result = convoy_json_choice(&images, "decoder", convoy_image_decoder_texts, &decoder, error)) < 0)
        return result;
    config->images.scaled_decoding = (enum convoy_scaling)scaling;
    config->images.decoder = (enum convoy_image_decoder)decoder;
    return 0;
}

int convoy_batching_read(const struct convoy_json *root, struct convoy_batching *batching,
                         struct convoy_error *error)
{
    static const char *const known[] = {"max_batch", "max_delay_us", "max_queue", "weight", NULL};
    struct convoy_json inside;
    int result;
    if ((result = convoy_json_object(root, "batching", &inside, error)) < 0 ||
        (result = convoy_json_known(&inside, known, error)) < 0 ||
        (result = convoy_json_uint32(&inside, "max_batch", 1, CONVOY_MAX_BATCH, &batching->max_batch,
                                     error)) < 0 ||
        (result = convoy_json_uint32(&inside, "max_delay_us", 0, 10000000, &batching->max_delay_us, error)) <
            0 ||
        (result = convoy_json_uint32(&inside, "max_queue", 1, 1000000, &batching->max_queue, error)) < 0 ||
        (result = convoy_json_uint32(&inside, "weight", 1, 1000, &batching->weight, error)) < 0)
        return result;
    return 0;
}

static int read_response_cache(const struct convoy_json *root, struct convoy_config *config,
                               struct convoy_error *error)
{
    static const char *const known[] = {"bytes", NULL};
    struct convoy_json inside;
    uint64_t *bytes = &config->response_cache.bytes;
    int result;
    if ((result = convoy_json_object(root, "response_cache", &inside, error)) < 0 ||
        (result = convoy_json_known(&inside, known, error)) < 0 ||
        (result = convoy_json_uint64(&inside, "bytes", 0, CONVOY_RESPONSE_CACHE_MOST, bytes, error)) < 0)
        return result;
    if (*bytes != 0 && *bytes < CONVOY_RESPONSE_CACHE_LEAST)
        return convoy_fail(error, -EINVAL,
                           "%s: response_cache.bytes must be 0 (no cache) or from %llu to %llu, found %llu",
                           root->file, (unsigned long long)CONVOY_RESPONSE_CACHE_LEAST,
                           (unsigned long long)CONVOY_RESPONSE_CACHE_MOST, (unsigned long long)*bytes);
    return 0;
}

/* An array of names of models. */
static int read_load_at_start(const struct convoy_json *repository, struct convoy_config *config,
                              struct convoy_error *error)
{
    int result = convoy_json_strings(repository, "load_at_start", convoy_model_name_valid,
                                     "models' names: 1 to 128 letters, digits, '.', '_' or '-'",
                                     &config->repository.load_at_start, error);
    if (result < 0)
        return result;
    const char *const *names = (const char *const *)config->repository.load_at_start;
    if (names != NULL && names[0] != NULL && config->repository.control != CONVOY_CONTROL_EXPLICIT)
        return convoy_fail(
            error, -EINVAL,
            "%s: repository.load_at_start is for \"model_control\": \"explicit\" alone: in the "
            "other modes every model is loaded",
            repository->file);
    return 0;
}

static int read_repository(const struct convoy_json *root, struct convoy_config *config,
                           struct convoy_error *error)
{
    static const char *const known[] = {"poll_ms", "load_at_start", "device_bytes", "unload_idle", NULL};
    struct convoy_json repository;
    unsigned control = config->repository.control;
    int result;
    if ((result = convoy_json_choice(root, "model_control", convoy_model_controls, &control, error)) < 0)
        return result;
    config->repository.control = (enum convoy_model_control)control;
    if ((result = convoy_json_object(root, "repository", &repository, error)) < 0 ||
        (result = convoy_json_known(&repository, known, error)) < 0 ||
        (result = convoy_json_uint32(&repository, "poll_ms", LEAST_POLL_MS, DAY_MS,
                                     &config->repository.poll_ms, error)) < 0 ||
        (result = read_load_at_start(&repository, config, error)) < 0 ||
        (result = convoy_json_uint64(&repository, "device_bytes", 0, UINT64_C(1) << 50,
                                     &config->repository.device_bytes, error)) < 0 ||
        (result = convoy_json_bool(&repository, "unload_idle", &config->repository.unload_idle, error)) < 0)
        return result;
    if (config->repository.unload_idle && config->repository.device_bytes == 0)
        return convoy_fail(error, -EINVAL,
                           "%s: repository.unload_idle has no limit to keep: set repository.device_bytes",
                           root->file);
    return 0;
}

static const char *const keys[] = {"listen",
                                   "listen_mode",
                                   "health_listen",
                                   "models",
                                   "default_model",
                                   "backend",
                                   "http",
                                   "images",
                                   "batching",
                                   "response_cache",
                                   "model_control",
                                   "repository",
                                   "timeout_ms",
                                   "timeout_max_ms",
                                   "drain_ms",
                                   "drain_timeout_ms",
                                   "ready_grace_ms",
                                   "worker",
                                   "cache_dir",
                                   "tune",
                                   "log",
                                   "tls",
                                   "auth",
                                   "limits",
                                   "admin_listen",
                                   "shared_memory",
                                   "web",
                                   "tracing",
                                   NULL};

static int read_document(const struct convoy_json *root, struct convoy_config *config,
                         struct convoy_error *error)
{
    int result;
    if ((result = convoy_json_known(root, keys, error)) < 0 ||
        (result = convoy_listen_read(root, "listen", &config->listen, error)) < 0 ||
        (result = convoy_listen_mode_read(root, "listen_mode", &config->listen_mode, error)) < 0 ||
        (result = read_address(root, "health_listen", &config->health_listen, &config->health_host,
                               &config->health_port, error)) < 0 ||
        (result = read_names(root, config, error)) < 0 || (result = read_choices(root, config, error)) < 0 ||
        (result = read_http(root, config, error)) < 0 ||
        (result = convoy_tls_config_read(root, &config->tls, error)) < 0 ||
        (result = convoy_shared_memory_config_read(root, &config->shared_memory, error)) < 0 ||
        (result = convoy_web_config_read(root, &config->web, error)) < 0 ||
        (result = convoy_tracing_config_read(root, &config->tracing, error)) < 0 ||
        (result = read_images(root, config, error)) < 0 ||
        (result = convoy_batching_read(root, &config->batching, error)) < 0 ||
        (result = read_response_cache(root, config, error)) < 0 ||
        (result = read_repository(root, config, error)) < 0 ||
        (result = convoy_worker_config_read(root, &config->worker, error)) < 0 ||
        (result = convoy_access_config_read(root, &config->access, error)) < 0 ||
        (result = convoy_json_uint32(root, "timeout_ms", 1, HOUR_MS, &config->timeout_ms, error)) < 0 ||
        (result = convoy_json_uint32(root, "timeout_max_ms", 1, HOUR_MS, &config->timeout_max_ms, error)) <
            0 ||
        (result = convoy_json_uint32(root, "drain_ms", 0, HOUR_MS, &config->drain_ms, error)) < 0 ||
        (result = convoy_json_uint32(root, "drain_timeout_ms", 0, HOUR_MS, &config->drain_timeout_ms,
                                     error)) < 0 ||
        (result = convoy_json_uint32(root, "ready_grace_ms", 0, HOUR_MS, &config->ready_grace_ms, error)) < 0)
        return result;
    return 0;
}

/* In the installed file a relative folder of models is where that file's are. */
static int find_installed_models(struct convoy_config *config, struct convoy_error *error)
{
    char models[PATH_MAX];
    int found = convoy_config_installed_models(config->file, config->models, models, error);
    return found > 0 ? replace(&config->models, models, config->file, error) : found;
}

int convoy_config_load(const char *path, struct convoy_config **config, struct convoy_error *error)
{
    char found[PATH_MAX];
    cJSON *document = NULL;
    struct convoy_json root;
    int result = 0;
    bool searched = path == NULL;
    struct convoy_config *loaded = convoy_config_default();
    if (loaded == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the configuration");

    if (path == NULL && convoy_config_found(found))
        path = found;
    if (path != NULL) {
        if ((result = replace(&loaded->file, path, path, error)) < 0 ||
            (result = convoy_json_load(path, &document, error)) < 0 ||
            (result = convoy_json_root(document, path, &root, error)) < 0 ||
            (result = read_document(&root, loaded, error)) < 0 ||
            (searched && (result = find_installed_models(loaded, error)) < 0))
            goto out;
    }
    *config = loaded;
    loaded = NULL;

out:
    cJSON_Delete(document);
    convoy_config_free(loaded);
    return result;
}
