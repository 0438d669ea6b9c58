#include "server/config/access_config.h"

#include "engine/base/json.h"
#include "server/config/role.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_A_SECOND 0.001
#define MOST_A_SECOND  1e6
#define MOST_AT_ONCE   1000000u
#define MOST_BODY_RATE (1u << 30)

static const char *const limit_keys[] = {"address", "key", NULL};

bool convoy_access_config_default(struct convoy_access_config *access)
{
    *access = (struct convoy_access_config){.admin_listen = strdup("auto")};
    access->auth.anonymous = CONVOY_ROLE_BIT(CONVOY_ROLE_INFER) | CONVOY_ROLE_BIT(CONVOY_ROLE_METRICS);
    return access->admin_listen != NULL;
}

void convoy_access_config_free(struct convoy_access_config *access)
{
    free(access->auth.keys);
    free(access->admin_listen);
    convoy_json_strings_free(access->cors_origins);
}

/* A copy of text in *field; text NULL clears it. */
static int replace(char **field, const char *text, const struct convoy_json *object,
                   struct convoy_error *error)
{
    char *copy = text != NULL ? strdup(text) : NULL;
    if (text != NULL && copy == NULL)
        return convoy_fail(error, -ENOMEM, "%s: out of memory", object->file);
    free(*field);
    *field = copy;
    return 0;
}

/* Admin without a key is another switch, with conditions of its own. */
static bool can_be_anonymous(const char *name)
{
    enum convoy_role role;
    return convoy_role_parse(name, strlen(name), &role) && role != CONVOY_ROLE_ADMIN;
}

static int read_anonymous(const struct convoy_json *auth, struct convoy_auth_config *config,
                          struct convoy_error *error)
{
    char **names = NULL;
    if (!convoy_json_has(auth, "anonymous"))
        return 0;
    int result = convoy_json_strings(auth, "anonymous", can_be_anonymous,
                                     "the roles that need no key: \"infer\", \"metrics\"", &names, error);
    if (result == 0)
        config->anonymous = 0;
    for (char *const *name = names; result == 0 && name != NULL && *name != NULL; name++) {
        enum convoy_role role;
        if (convoy_role_parse(*name, strlen(*name), &role))
            config->anonymous |= CONVOY_ROLE_BIT(role);
    }
    convoy_json_strings_free(names);
    return result;
}

static int read_auth(const struct convoy_json *root, struct convoy_auth_config *config,
                     struct convoy_error *error)
{
    static const char *const known[] = {"keys", "anonymous", "loopback_admin", NULL};
    const char *keys = NULL;
    struct convoy_json auth;
    int result;
    if ((result = convoy_json_object(root, "auth", &auth, error)) < 0 ||
        (result = convoy_json_known(&auth, known, error)) < 0 ||
        (result = convoy_json_string_or_null(&auth, "keys", &keys, error)) < 0 ||
        (result = read_anonymous(&auth, config, error)) < 0 ||
        (result = convoy_json_bool(&auth, "loopback_admin", &config->loopback_admin, error)) < 0)
        return result;
    if (keys != NULL && keys[0] == '\0')
        return convoy_fail(error, -EINVAL, "%s: auth.keys must name a file or be null, found \"\"",
                           root->file);
    if (keys == NULL && config->anonymous != (CONVOY_ROLES_ALL & ~CONVOY_ROLE_BIT(CONVOY_ROLE_ADMIN)))
        return convoy_fail(
            error, -EINVAL,
            "%s: auth.anonymous leaves out a role, and there are no keys that could have it: set "
            "auth.keys (`convoy key` makes one)",
            root->file);
    return replace(&config->keys, keys, root, error);
}

static int read_limits(const struct convoy_json *root, struct convoy_limit_config *config,
                       struct convoy_error *error)
{
    static const char *const known[] = {"requests_per_second",
                                        "images_per_second",
                                        "burst",
                                        "concurrent",
                                        "body_bytes_per_second",
                                        "by",
                                        NULL};
    struct convoy_json limits;
    unsigned by = config->by;
    int result;
    if ((result = convoy_json_object(root, "limits", &limits, error)) < 0 ||
        (result = convoy_json_known(&limits, known, error)) < 0 ||
        (result = convoy_json_double(&limits, "requests_per_second", 0, MOST_A_SECOND,
                                     &config->requests_per_second, error)) < 0 ||
        (result = convoy_json_double(&limits, "images_per_second", 0, MOST_A_SECOND,
                                     &config->images_per_second, error)) < 0 ||
        (result = convoy_json_uint32(&limits, "burst", 0, MOST_AT_ONCE, &config->burst, error)) < 0 ||
        (result = convoy_json_uint32(&limits, "concurrent", 0, MOST_AT_ONCE, &config->concurrent, error)) <
            0 ||
        (result = convoy_json_uint32(&limits, "body_bytes_per_second", 0, MOST_BODY_RATE,
                                     &config->body_bytes_per_second, error)) < 0 ||
        (result = convoy_json_choice(&limits, "by", limit_keys, &by, error)) < 0)
        return result;
    config->by = (enum convoy_limit_by)by;
    if ((config->requests_per_second > 0 && config->requests_per_second < LEAST_A_SECOND) ||
        (config->images_per_second > 0 && config->images_per_second < LEAST_A_SECOND))
        return convoy_fail(
            error, -EINVAL,
            "%s: limits.requests_per_second and limits.images_per_second must be 0 (no limit) or at "
            "least 0.001",
            root->file);
    return 0;
}

static int read_admin_listen(const struct convoy_json *root, struct convoy_access_config *access,
                             struct convoy_error *error)
{
    static const char prefix[] = "unix:";
    const char *text = access->admin_listen;
    int result = convoy_json_string_or_null(root, "admin_listen", &text, error);
    if (result < 0 || text == access->admin_listen)
        return result;
    if (text != NULL && strcmp(text, "auto") != 0 &&
        (strncmp(text, prefix, sizeof prefix - 1) != 0 || text[sizeof prefix - 1] == '\0'))
        return convoy_fail(error, -EINVAL,
                           "%s: admin_listen must be \"auto\", \"unix:PATH\" or null, found \"%s\"",
                           root->file, text);
    return replace(&access->admin_listen, text, root, error);
}

int convoy_access_config_read(const struct convoy_json *root, struct convoy_access_config *access,
                              struct convoy_error *error)
{
    int result;
    if ((result = read_auth(root, &access->auth, error)) < 0 ||
        (result = read_limits(root, &access->limits, error)) < 0)
        return result;
    return read_admin_listen(root, access, error);
}

/* A name or an address as in Host, without a port. */
static bool valid_host(const char *host)
{
    size_t length = strlen(host);
    return length >= 1 && length <= 255 && strcspn(host, " \t\r\n/@?#\"\\") == length &&
           (host[0] == '[' || strchr(host, ':') == NULL);
}

/* As a browser sends it: a scheme, a host and perhaps a port, in small letters; or "*". */
static bool valid_origin(const char *origin)
{
    if (strcmp(origin, "*") == 0)
        return true;
    const char *host = strncmp(origin, "https://", 8) == 0  ? origin + 8
                       : strncmp(origin, "http://", 7) == 0 ? origin + 7
                                                            : "";
    return host[0] != '\0' && strlen(host) <= 255 &&
           host[strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789.-:[]_")] == '\0';
}

int convoy_access_config_read_http(const struct convoy_json *http, struct convoy_access_config *access,
                                   char ***hosts, struct convoy_error *error)
{
    int result = convoy_json_strings(http, "hosts", valid_host,
                                     "names or addresses of hosts, without a port, e.g. \"convoy.example\"",
                                     hosts, error);
    if (result < 0)
        return result;
    result = convoy_json_strings(http, "cors_origins", valid_origin,
                                 "origins as browsers send them, e.g. \"https://app.example\", in small "
                                 "letters and without a path; or \"*\"",
                                 &access->cors_origins, error);
    if (result < 0 || access->cors_origins == NULL)
        return result;
    for (char *const *origin = access->cors_origins; *origin != NULL; origin++)
        if (strcmp(*origin, "*") == 0 && (origin != access->cors_origins || origin[1] != NULL))
            return convoy_fail(
                error, -EINVAL,
                "%s: http.cors_origins: \"*\" stands for every origin, name no other beside it", http->file);
    return 0;
}
