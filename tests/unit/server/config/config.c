#include "server/config/config.h"
#include "server/config/config_search.h"
#include "server/config/role.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "tests/unit/folder.h"

#define PROJECT CONVOY_TEST_DATA "/../.."

static struct convoy_error error;
static struct convoy_config *config;

static void close_config(void)
{
    convoy_config_free(config);
    config = NULL;
}

static void open_config(const char *path)
{
    cr_assert_eq(convoy_config_load(path, &config, &error), 0, "%s", error.message);
}

static void same_text(const char *left, const char *right)
{
    cr_assert((left == NULL) == (right == NULL));
    if (left != NULL)
        cr_assert_str_eq(left, right);
}

static size_t count_strings(char **list)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL)
        count++;
    return count;
}

/* Everything but file and default_model. */
static void same_config(const struct convoy_config *a, const struct convoy_config *b)
{
    cr_assert_eq(a->listen.count, b->listen.count);
    for (uint32_t i = 0; i < a->listen.count; i++) {
        same_text(a->listen.list[i].written, b->listen.list[i].written);
        same_text(a->listen.list[i].host, b->listen.list[i].host);
        same_text(a->listen.list[i].path, b->listen.list[i].path);
        cr_assert_eq(a->listen.list[i].port, b->listen.list[i].port);
    }
    cr_assert_eq(a->listen_mode, b->listen_mode);
    same_text(a->health_listen, b->health_listen);
    same_text(a->health_host, b->health_host);
    cr_assert_eq(a->health_port, b->health_port);
    same_text(a->models, b->models);
    same_text(a->cache_dir, b->cache_dir);
    cr_assert_eq(a->backend, b->backend);
    cr_assert_eq(a->http.threads, b->http.threads);
    cr_assert_eq(a->http.connections, b->http.connections);
    cr_assert_eq(a->http.connections_per_address, b->http.connections_per_address);
    cr_assert_eq(a->http.idle_timeout_ms, b->http.idle_timeout_ms);
    cr_assert_eq(a->http.request_timeout_ms, b->http.request_timeout_ms);
    cr_assert_eq(a->http.max_header_bytes, b->http.max_header_bytes);
    cr_assert_eq(a->http.max_body_bytes, b->http.max_body_bytes);
    cr_assert_eq(a->http.half_close, b->http.half_close);
    cr_assert_eq(a->images.max_pixels, b->images.max_pixels);
    cr_assert_eq(a->images.max_per_request, b->images.max_per_request);
    cr_assert_eq(a->images.scaled_decoding, b->images.scaled_decoding);
    cr_assert_eq(a->images.decoder, b->images.decoder);
    cr_assert_eq(a->batching.max_batch, b->batching.max_batch);
    cr_assert_eq(a->batching.max_delay_us, b->batching.max_delay_us);
    cr_assert_eq(a->batching.max_queue, b->batching.max_queue);
    cr_assert_eq(a->response_cache.bytes, b->response_cache.bytes);
    cr_assert_eq(a->repository.control, b->repository.control);
    cr_assert_eq(a->repository.poll_ms, b->repository.poll_ms);
    cr_assert_eq(a->repository.device_bytes, b->repository.device_bytes);
    cr_assert_eq(a->repository.unload_idle, b->repository.unload_idle);
    cr_assert_eq(a->timeout_ms, b->timeout_ms);
    cr_assert_eq(a->timeout_max_ms, b->timeout_max_ms);
    cr_assert_eq(a->drain_ms, b->drain_ms);
    cr_assert_eq(a->drain_timeout_ms, b->drain_timeout_ms);
    cr_assert_eq(a->ready_grace_ms, b->ready_grace_ms);
    cr_assert_eq(a->worker.streams, b->worker.streams);
    cr_assert_eq(a->worker.slots, b->worker.slots);
    cr_assert_eq(a->worker.hang_timeout_ms, b->worker.hang_timeout_ms);
    cr_assert_eq(a->worker.slot_bytes, b->worker.slot_bytes);
    cr_assert_eq(a->worker.sandbox, b->worker.sandbox);
    cr_assert_eq(a->worker.confine_files, b->worker.confine_files);
    cr_assert_eq(count_strings(a->worker.readable), count_strings(b->worker.readable));
    cr_assert_eq(a->worker.user == NULL, b->worker.user == NULL);
    cr_assert_eq(a->worker.canary_ms, b->worker.canary_ms);
    cr_assert_eq(a->worker.orphan_ms, b->worker.orphan_ms);
    cr_assert_eq(a->worker.per_model, b->worker.per_model);
    cr_assert_eq(a->worker.spares, b->worker.spares);
    cr_assert_eq(a->tune, b->tune);
    cr_assert_eq(a->shared_memory.enabled, b->shared_memory.enabled);
    cr_assert_eq(a->web.enabled, b->web.enabled);
    cr_assert_eq(a->tracing.sample, b->tracing.sample);
    cr_assert_eq(a->log.format, b->log.format);
    cr_assert_eq(a->log.level, b->log.level);
    cr_assert_eq(a->log.access, b->log.access);
}

Test(config, the_shipped_file_holds_the_built_in_values, .fini = close_config)
{
    open_config(PROJECT "/config/convoyd.json");
    struct convoy_config *built_in = convoy_config_default();
    same_config(config, built_in);
    cr_assert_null(built_in->default_model);
    cr_assert_null(built_in->file);
    cr_assert_str_eq(config->default_model, "cifar10-resnet");
    cr_assert_str_eq(config->file, PROJECT "/config/convoyd.json");
    convoy_config_free(built_in);
}

Test(config, an_empty_object_holds_the_built_in_values, .fini = close_config)
{
    struct folder folder = folder_make();
    open_config(folder_write(&folder, "c.json", "{}"));
    struct convoy_config *built_in = convoy_config_default();
    same_config(config, built_in);
    cr_assert_null(config->default_model);
    convoy_config_free(built_in);
    folder_remove(&folder);
}

Test(config, every_key_is_read, .fini = close_config)
{
    open_config(CONVOY_TEST_DATA "/config/every_key.json");
    struct convoy_config expected = {
        .listen = {(struct convoy_listen_address[]){{.written = "[::1]:9090", .host = "::1", .port = 9090},
                                                    {.written = "unix:/run/c.sock", .path = "/run/c.sock"}},
                   2},
        .listen_mode = 0600,
        .health_listen = ":9091",
        .health_host = "",
        .health_port = 9091,
        .models = "/srv/models",
        .backend = CONVOY_BACKEND_CPU,
        .http = {5, 100, 50, 1001, 1002, 4096, 1000000, true, NULL},
        .images = {123456, 17, CONVOY_SCALING_ALWAYS, CONVOY_IMAGE_DECODER_FASTEST},
        .batching = {32, 250, 99},
        .response_cache = {7654321},
        .repository = {CONVOY_CONTROL_EXPLICIT, 70, NULL, 123456789, true},
        .timeout_ms = 2001,
        .timeout_max_ms = 2101,
        .drain_ms = 2002,
        .drain_timeout_ms = 2003,
        .ready_grace_ms = 2004,
        .worker = {2, 6, 3001, 65536, false, CONVOY_CONFINE_FILES_OFF, (char *[]){"/data/models", NULL}, NULL,
                   501, 502, 3, true},
        .cache_dir = "/var/cache/convoyd",
        .tune = CONVOY_TUNE_FORCE,
        .shared_memory = {.enabled = true},
        .web = {false},
        .tracing = {NULL, 0.25},
        .log = {CONVOY_LOG_JSON, CONVOY_LOG_DEBUG, CONVOY_ACCESS_SAMPLED},
    };
    same_config(config, &expected);
    cr_assert_str_eq(config->default_model, "resnet-18");
    cr_assert_str_eq(config->tracing.otlp_url, "http://collector.example:4318/v1/traces");
    cr_assert_str_eq(config->repository.load_at_start[0], "resnet-18");
    cr_assert_str_eq(config->repository.load_at_start[1], "b.2");
    cr_assert_null(config->repository.load_at_start[2]);
    cr_assert_str_eq(config->shared_memory.prefix, "/cam-");
    cr_assert(convoy_shared_memory_config_takes(&config->shared_memory, "/cam-1"));
    cr_assert_not(convoy_shared_memory_config_takes(&config->shared_memory, "/came"));
    uid_t *owners;
    size_t owner_count;
    struct convoy_error users;
    cr_assert_eq(convoy_shared_memory_config_owners(&config->shared_memory, &owners, &owner_count, &users), 0,
                 "%s", users.message);
    cr_assert(owner_count == 2 && owners[0] == 1000 && owners[1] == 0);
    free(owners);
    cr_assert_str_eq(config->http.hosts[0], "convoy.example");
    cr_assert_str_eq(config->http.hosts[1], "[fe80::1]");
    cr_assert_null(config->http.hosts[2]);
    const struct convoy_access_config *access = &config->access;
    cr_assert_str_eq(access->cors_origins[0], "https://app.example");
    cr_assert_str_eq(access->cors_origins[1], "http://localhost:3000");
    cr_assert_null(access->cors_origins[2]);
    cr_assert_str_eq(access->admin_listen, "unix:/run/a.sock");
    cr_assert_str_eq(access->auth.keys, "/etc/convoyd/keys");
    cr_assert_eq(access->auth.anonymous, CONVOY_ROLE_BIT(CONVOY_ROLE_METRICS));
    cr_assert(access->auth.loopback_admin);
    cr_assert_float_eq(access->limits.requests_per_second, 2.5, 0);
    cr_assert_float_eq(access->limits.images_per_second, 100, 0);
    cr_assert_eq(access->limits.burst, 7);
    cr_assert_eq(access->limits.concurrent, 8);
    cr_assert_eq(access->limits.body_bytes_per_second, 900);
    cr_assert_eq(access->limits.by, CONVOY_LIMIT_BY_KEY);
}

/* Each line: a document and what the sentence must say besides the file's name. */
Test(config, what_is_wrong_is_named)
{
    static const char *const cases[][2] = {
        {"{\"htpp\": {}}",
         "unknown key 'htpp' (did you mean 'http'?); the keys known here are listen, listen_mode, "
         "health_listen, models, "
         "default_model, backend, "
         "http, images, batching, response_cache, model_control, repository, timeout_ms, timeout_max_ms, "
         "drain_ms, "
         "drain_timeout_ms, ready_grace_ms, "
         "worker, cache_dir, tune, log"},
        {"{\"http\": {\"thread\": 1}}", "unknown key 'http.thread'"},
        {"{\"admin_listen\": \"/run/a\"}", "admin_listen must be"},
        {"{\"admin_listen\": \"unix:\"}", "admin_listen must be"},
        {"{\"shared_memory\": {\"enabled\": 1}}", "shared_memory.enabled must be true or false"},
        {"{\"shared_memory\": {\"prefix\": \"cam\"}}", "must begin with '/'"},
        {"{\"shared_memory\": {\"prefix\": \"/a/b\"}}", "no other slash"},
        {"{\"shared_memory\": {\"owners\": [\"\"]}}", "shared_memory.owners"},
        {"{\"shared_memory\": {\"owner\": []}}", "shared_memory.owner"},
        {"{\"web\": {\"enabled\": 1}}", "web.enabled must be true or false"},
        {"{\"web\": {\"on\": true}}", "web.on"},
        {"{\"tracing\": {\"url\": null}}", "tracing.url"},
        {"{\"tracing\": {\"sample\": 1.5}}", "tracing.sample must be a number from 0 to 1"},
        {"{\"tracing\": {\"otlp_url\": \"collector:4318\"}}", "http://127.0.0.1:4318/v1/traces"},
        {"{\"tracing\": {\"otlp_url\": \"http:///v1/traces\"}}", "tracing.otlp_url must be"},
        {"{\"tracing\": {\"otlp_url\": \"http://a/\\r\\nX: 1\"}}", "tracing.otlp_url must be"},
        {"{\"auth\": {\"keys\": \"\"}}", "auth.keys must name a file"},
        {"{\"auth\": {\"anonymous\": []}}", "auth.anonymous leaves out a role"},
        {"{\"auth\": {\"keys\": \"k\", \"anonymous\": [\"admin\"]}}", "auth.anonymous[0]"},
        {"{\"limits\": {\"requests_per_second\": 0.0001}}", "at least 0.001"},
        {"{\"limits\": {\"by\": \"name\"}}", "limits.by"},
        {"{\"http\": {\"cors_origins\": [\"*\", \"https://a\"]}}", "name no other beside it"},
        {"{\"http\": {\"cors_origins\": [\"https://a/\"]}}", "http.cors_origins[0]"},
        {"{\"http\": {\"cors_origins\": [\"a.example\"]}}", "http.cors_origins[0]"},
        {"{\"http\": {\"trusted_proxies\": [\"::1\", \"10.0.0.1/8\"]}}",
         "http.trusted_proxies[1]: the array must have"},
        {"{\"http\": {\"forwarded_header\": \"via\"}}", "http.forwarded_header must be"},
        {"{\"http\": {\"hosts\": \"a\"}}", "http.hosts must be an array of names or addresses of hosts"},
        {"{\"http\": {\"hosts\": [\"a\", \"b:80\"]}}", "http.hosts[1]"},
        {"{\"http\": {\"hosts\": [\"http://a\"]}}", "http.hosts[0]"},
        {"{\"http\": {\"hosts\": [\"\"]}}", "http.hosts[0]"},
        {"{\"timeout_max_ms\": 0}", "timeout_max_ms"},
        {"{\"images\": {\"pixels\": 1}}", "unknown key 'images.pixels'"},
        {"{\"batching\": {\"batch\": 1}}", "unknown key 'batching.batch'"},
        {"{\"worker\": {\"slot\": 1}}", "unknown key 'worker.slot'"},
        {"{\"log\": {\"file\": \"x\"}}", "unknown key 'log.file'"},
        {"{\"http\": 4}", "http must be an object {...}, found 4"},
        {"{\"listen\": 8080}", "listen must be an address"},
        {"{\"listen\": []}", "listen must be an address"},
        {"{\"listen\": [\"a:1\", 2]}", "listen: the array must have addresses alone"},
        {"{\"listen\": [\"a:1\", \"b:2\", \"a:1\"]}", "listen: 'a:1' is there twice"},
        {"{\"listen\": \"unix:\"}", "the path of a Unix socket has 1 to 107 bytes"},
        {"{\"listen_mode\": \"rw\"}", "listen_mode must be a file's mode"},
        {"{\"listen_mode\": \"1777\"}", "listen_mode must be a file's mode"},
        {"{\"listen\": \"localhost\"}", "listen must be HOST:PORT"},
        {"{\"models\": \"\"}", "models must name a folder"},
        {"{\"models\": null}", "models must be a string, found null"},
        {"{\"default_model\": \"../x\"}", "default_model must be a model's name"},
        {"{\"cache_dir\": \"\"}", "cache_dir must name a folder or be null"},
        {"{\"backend\": \"gpu\"}", "backend must be \"auto\", \"cpu\", \"cuda\" or \"null\", found \"gpu\""},
        {"{\"tune\": true}", "tune must be \"on\", \"off\" or \"force\", found true"},
        {"{\"log\": {\"level\": \"warn\"}}", "log.level must be"},
        {"{\"log\": {\"access\": \"some\"}}", "log.access must be \"off\", \"sampled\" or \"all\""},
        {"{\"log\": {\"format\": \"text\"}}", "log.format must be \"logfmt\" or \"json\""},
        {"{\"http\": {\"threads\": \"four\"}}",
         "http.threads must be an integer from 0 to 1024, found \"four\""},
        {"{\"http\": {\"threads\": 1025}}", "http.threads must be"},
        {"{\"http\": {\"connections\": 0}}", "http.connections must be"},
        {"{\"http\": {\"connections_per_address\": -1}}", "http.connections_per_address must be"},
        {"{\"health_listen\": \"9091\"}", "health_listen"},
        {"{\"http\": {\"idle_timeout_ms\": 0}}", "http.idle_timeout_ms must be"},
        {"{\"http\": {\"request_timeout_ms\": 0.5}}", "http.request_timeout_ms must be"},
        {"{\"http\": {\"max_header_bytes\": 10}}", "http.max_header_bytes must be"},
        {"{\"http\": {\"max_body_bytes\": -1}}", "http.max_body_bytes must be"},
        {"{\"images\": {\"max_pixels\": 0}}", "images.max_pixels must be"},
        {"{\"images\": {\"max_per_request\": 0}}", "images.max_per_request must be"},
        {"{\"images\": {\"scaled_decoding\": \"half\"}}", "images.scaled_decoding must be"},
        {"{\"images\": {\"decoder\": \"tpu\"}}", "images.decoder must be"},
        {"{\"batching\": {\"max_batch\": 0}}", "batching.max_batch must be an integer from 1 to 4096"},
        {"{\"batching\": {\"max_batch\": 4097}}", "batching.max_batch must be"},
        {"{\"batching\": {\"max_delay_us\": -1}}", "batching.max_delay_us must be"},
        {"{\"batching\": {\"max_queue\": 0}}", "batching.max_queue must be"},
        {"{\"model_control\": \"watch\"}", "model_control must be"},
        {"{\"repository\": []}", "repository must be an object {...}, found an array"},
        {"{\"repository\": {\"poll_ms\": 49}}", "repository.poll_ms must be an integer from 50 to 86400000"},
        {"{\"repository\": {\"load_at_start\": \"a\"}}", "repository.load_at_start must be an array"},
        {"{\"model_control\": \"explicit\", \"repository\": {\"load_at_start\": [\"a\", \"../b\"]}}",
         "repository.load_at_start[1]: the array must have models' names"},
        {"{\"model_control\": \"poll\", \"repository\": {\"load_at_start\": [\"a\"]}}",
         "repository.load_at_start is for \"model_control\": \"explicit\" alone"},
        {"{\"repository\": {\"device_bytes\": -1}}", "repository.device_bytes must be"},
        {"{\"repository\": {\"unload_idle\": true}}", "repository.unload_idle has no limit to keep"},
        {"{\"response_cache\": true}", "response_cache must be an object {...}, found true"},
        {"{\"response_cache\": {\"size\": 1}}", "unknown key 'response_cache.size'"},
        {"{\"response_cache\": {\"bytes\": -1}}", "response_cache.bytes must be"},
        {"{\"response_cache\": {\"bytes\": 65535}}",
         "response_cache.bytes must be 0 (no cache) or from 65536 to 1099511627776, found 65535"},
        {"{\"response_cache\": {\"bytes\": 1099511627777}}", "response_cache.bytes must be"},
        {"{\"timeout_ms\": 0}", "timeout_ms must be"},
        {"{\"drain_ms\": -1}", "drain_ms must be"},
        {"{\"drain_timeout_ms\": 1e9}", "drain_timeout_ms must be"},
        {"{\"ready_grace_ms\": null}", "ready_grace_ms must be"},
        {"{\"worker\": {\"streams\": 0}}", "worker.streams must be"},
        {"{\"worker\": {\"slots\": 65}}", "worker.slots must be an integer from 1 to 64"},
        {"{\"worker\": {\"hang_timeout_ms\": 100}}", "worker.hang_timeout_ms must be"},
        {"{\"worker\": {\"sandbox\": 1}}", "worker.sandbox must be true or false"},
        {"{\"worker\": {\"confine_files\": true}}",
         "worker.confine_files must be \"auto\", \"on\" or \"off\""},
        {"{\"worker\": {\"readable\": \"/data\"}}", "worker.readable must be"},
        {"{\"worker\": {\"readable\": [\"\"]}}", "a folder"},
        {"{\"worker\": {\"readable\": [\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\","
         "\"11\",\"12\",\"13\",\"14\",\"15\",\"16\",\"17\"]}}",
         "worker.readable must name at most 16 folders, found 17"},
        {"{\"worker\": {\"user\": \"no such user\"}}",
         "worker.user: this machine has no user 'no such user': name one, or give a number"},
        {"{\"worker\": {\"user\": 5}}", "worker.user must be"},
        {"{\"worker\": {\"canary_ms\": 3600001}}", "worker.canary_ms must be"},
        {"{\"worker\": {\"orphan_ms\": -1}}", "worker.orphan_ms must be"},
        {"{\"worker\": {\"per_model\": \"yes\"}}", "worker.per_model must be true or false"},
        {"{\"worker\": {\"spares\": 5}}", "worker.spares must be an integer from 0 to 4"},
        {"{\"worker\": {\"slot_bytes\": 100}}", "worker.slot_bytes must be 0 (automatic) or from 4096"},
        {"{\"worker\": {\"slot_bytes\": 67108865}}", "worker.slot_bytes must be"},
        {"{\"tune\": \"on\", \"tune\": \"off\"}", "the key 'tune' stands there twice"},
        {"[]", "must be a JSON object"},
        {"{", "not valid JSON"},
    };
    struct folder folder = folder_make();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config = NULL;
        const char *path = folder_write(&folder, "c.json", cases[i][0]);
        cr_assert_eq(convoy_config_load(path, &config, &error), -EINVAL, "%s", cases[i][0]);
        cr_assert_null(config);
        assert_says(error, path);
        assert_says(error, cases[i][1]);
    }
    cr_assert_eq(convoy_config_load(folder_path(&folder, "none.json"), &config, &error), -ENOENT);
    assert_says(error, "none.json");
    folder_remove(&folder);
}

Test(config, listen_addresses)
{
    static const struct {
        const char *text, *host;
        int port; /* -1: refused */
    } cases[] = {
        {"127.0.0.1:8080", "127.0.0.1", 8080},
        {"localhost:0", "localhost", 0},
        {"[::1]:65535", "::1", 65535},
        {"[fe80::1%eth0]:80", "fe80::1%eth0", 80},
        {":8080", "", 8080},
        {"0.0.0.0:00080", "0.0.0.0", 80},
        {"localhost", NULL, -1},
        {"localhost:", NULL, -1},
        {"localhost:65536", NULL, -1},
        {"localhost:080808", NULL, -1},
        {"localhost:-1", NULL, -1},
        {"localhost:80x", NULL, -1},
        {"localhost: 80", NULL, -1},
        {"::1:8080", NULL, -1},
        {"[::1]", NULL, -1},
        {"[::1]8080", NULL, -1},
        {"[]:8080", NULL, -1},
        {"[::1:8080", NULL, -1},
        {"a b:80", NULL, -1},
        {"http://a:80", NULL, -1},
        {"", NULL, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *host = NULL;
        uint16_t port = 7;
        int result = convoy_listen_parse("--listen", cases[i].text, &host, &port, &error);
        if (cases[i].port < 0) {
            cr_assert_eq(result, -EINVAL, "%s", cases[i].text);
            cr_assert(host == NULL && port == 7);
            assert_says(error, "--listen");
        } else {
            cr_assert_eq(result, 0, "%s: %s", cases[i].text, error.message);
            cr_assert_str_eq(host, cases[i].host);
            cr_assert_eq(port, cases[i].port);
        }
        free(host);
    }
}

/* ./config first, then PREFIX/etc, then the built-in values. */
Test(config, where_the_file_is_looked_for, .fini = close_config)
{
    struct folder folder = folder_make();
    char path[PATH_MAX], program[PATH_MAX];
    folder_make_way(&folder, "here/x");
    folder_make_way(&folder, "prefix/bin/x");
    snprintf(program, sizeof program, "%s/prefix/bin/convoyd", folder.path);
    cr_assert_eq(chdir(folder_path(&folder, "here")), 0);

    cr_assert_not(convoy_config_search(program, path, sizeof path));
    cr_assert_not(convoy_config_search("", path, sizeof path));
    open_config(NULL);
    cr_assert_null(config->file, "no file: the built-in values");
    close_config();

    const char *installed = folder_write(&folder, "prefix/etc/convoyd/convoyd.json", "{\"timeout_ms\": 7}");
    cr_assert(convoy_config_search(program, path, sizeof path));
    cr_assert_str_eq(path, installed);
    cr_assert_not(convoy_config_search(program, path, 10), "a path that does not fit");

    folder_write(&folder, "here/config/convoyd.json", "{\"timeout_ms\": 8}");
    cr_assert(convoy_config_search(program, path, sizeof path));
    cr_assert_str_eq(path, "config/convoyd.json");
    open_config(NULL);
    cr_assert_eq(config->timeout_ms, 8);
    cr_assert_eq(chdir("/"), 0);
    folder_remove(&folder);
}

/* ---- The page ---- */

/* Each key of the file that ships has a row "| `path` | default |" in docs/configuration.md. */
static void documented(const cJSON *object, const char *path, const char *page)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        char inner[100], row[200];
        snprintf(inner, sizeof inner, "%s%s%s", path, path[0] != '\0' ? "." : "", item->string);
        if (cJSON_IsObject(item)) {
            documented(item, inner, page);
            continue;
        }
        char *value = cJSON_PrintUnformatted(item);
        if (strcmp(inner, "default_model") == 0)
            snprintf(row, sizeof row, "| `%s` | `null` |", inner);
        else if (cJSON_IsNumber(item))
            snprintf(row, sizeof row, "| `%s` | %s |", inner, value);
        else
            snprintf(row, sizeof row, "| `%s` | `%s` |", inner, value);
        cJSON_free(value);
        cr_assert_not_null(strstr(page, row), "docs/configuration.md lacks the row %s", row);
    }
}

Test(config, the_page_describes_every_key_and_its_default)
{
    char *page = NULL;
    size_t length = 0;
    cJSON *shipped = NULL;
    cr_assert_eq(convoy_file_read(PROJECT "/docs/configuration.md", 1 << 20, &page, &length, &error), 0);
    cr_assert_eq(convoy_json_load(PROJECT "/config/convoyd.json", &shipped, &error), 0);
    cr_assert_eq(cJSON_GetArraySize(shipped), 28, "a key was added: is it in the file that ships?");
    documented(shipped, "", page);
    cJSON_Delete(shipped);
    free(page);
}
