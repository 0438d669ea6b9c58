#include "server/config/web_config.h"

#include "engine/base/json.h"

int convoy_web_config_read(const struct convoy_json *root, struct convoy_web_config *web,
                           struct convoy_error *error)
{
    static const char *const known[] = {"enabled", NULL};
    struct convoy_json inside;
    int result;

    if ((result = convoy_json_object(root, "web", &inside, error)) < 0 ||
        (result = convoy_json_known(&inside, known, error)) < 0)
        return result;
    return convoy_json_bool(&inside, "enabled", &web->enabled, error);
}
