#include "server/config/tls_config.h"

#include "engine/base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_path(const struct convoy_json *tls, const char *key, char **path, struct convoy_error *error)
{
    const char *text = NULL;
    int result = convoy_json_string_or_null(tls, key, &text, error);

    if (result < 0 || text == NULL)
        return result;
    if (text[0] == '\0')
        return convoy_fail(error, -EINVAL, "%s: tls.%s must name a file or be null, found \"\"", tls->file,
                           key);
    free(*path);
    *path = strdup(text);
    return *path != NULL ? 0 : convoy_fail(error, -ENOMEM, "%s: out of memory", tls->file);
}

int convoy_tls_config_read(const struct convoy_json *root, struct convoy_tls_config *tls,
                           struct convoy_error *error)
{
    static const char *const known[] = {"certificate", "key", "client_ca", NULL};
    struct convoy_json inside;
    int result;

    if ((result = convoy_json_object(root, "tls", &inside, error)) < 0 ||
        (result = convoy_json_known(&inside, known, error)) < 0 ||
        (result = read_path(&inside, "certificate", &tls->certificate, error)) < 0 ||
        (result = read_path(&inside, "key", &tls->key, error)) < 0 ||
        (result = read_path(&inside, "client_ca", &tls->client_ca, error)) < 0)
        return result;
    if ((tls->certificate == NULL) != (tls->key == NULL))
        return convoy_fail(error, -EINVAL, "%s: tls.%s is set and tls.%s is not: TLS needs both", root->file,
                           tls->key == NULL ? "certificate" : "key",
                           tls->key == NULL ? "key" : "certificate");
    if (tls->client_ca != NULL && tls->certificate == NULL)
        return convoy_fail(error, -EINVAL,
                           "%s: tls.client_ca asks clients for certificates, which needs TLS: set "
                           "tls.certificate and tls.key",
                           root->file);
    return 0;
}

void convoy_tls_config_clear(struct convoy_tls_config *tls)
{
    free(tls->certificate);
    free(tls->key);
    free(tls->client_ca);
    *tls = (struct convoy_tls_config){0};
}
