#include "server/config/tracing_config.h"

#include "engine/base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A scheme, a host, and no byte that would end a line of a request. */
static bool is_url(const char *text)
{
    size_t scheme = strncmp(text, "http://", 7) == 0 ? 7 : strncmp(text, "https://", 8) == 0 ? 8 : 0;

    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f || *at == '#')
            return false;
    return scheme > 0 && strchr("/:?@", text[scheme]) == NULL;
}

int convoy_tracing_config_read(const struct convoy_json *root, struct convoy_tracing_config *tracing,
                               struct convoy_error *error)
{
    static const char *const known[] = {"otlp_url", "sample", NULL};
    const char *url = NULL;
    struct convoy_json inside;
    int result;

    if ((result = convoy_json_object(root, "tracing", &inside, error)) < 0 ||
        (result = convoy_json_known(&inside, known, error)) < 0 ||
        (result = convoy_json_double(&inside, "sample", 0, 1, &tracing->sample, error)) < 0 ||
        (result = convoy_json_string_or_null(&inside, "otlp_url", &url, error)) < 0 || url == NULL)
        return result;
    if (!is_url(url))
        return convoy_fail(error, -EINVAL,
                           "%s: tracing.otlp_url must be the address that a collector takes traces at, e.g. "
                           "\"http://127.0.0.1:4318/v1/traces\", or null",
                           root->file);
    free(tracing->otlp_url);
    tracing->otlp_url = strdup(url);
    return tracing->otlp_url != NULL ? 0 : convoy_fail(error, -ENOMEM, "%s: out of memory", root->file);
}

void convoy_tracing_config_clear(struct convoy_tracing_config *tracing)
{
    free(tracing->otlp_url);
    *tracing = (struct convoy_tracing_config){0};
}
