#include "server/config/shared_memory_config.h"

#include "engine/base/json.h"
#include "server/config/user.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX_BYTES 255

static int read_prefix(const struct convoy_json *inside, char **prefix, struct convoy_error *error)
{
    const char *text = NULL;
    int result = convoy_json_string(inside, "prefix", &text, error);
    if (result < 0 || text == NULL)
        return result;
    if (text[0] != '/' || strchr(text + 1, '/') != NULL || strlen(text) > PREFIX_BYTES)
        return convoy_fail(error, -EINVAL,
                           "%s: shared_memory.prefix must begin with '/', have no other slash and at most "
                           "%d bytes",
                           inside->file, PREFIX_BYTES);
    free(*prefix);
    *prefix = strdup(text);
    return *prefix != NULL ? 0 : convoy_fail(error, -ENOMEM, "%s: out of memory", inside->file);
}

static bool names_user(const char *text)
{
    return text[0] != '\0';
}

int convoy_shared_memory_config_read(const struct convoy_json *root,
                                     struct convoy_shared_memory_config *shared_memory,
                                     struct convoy_error *error)
{
    static const char *const known[] = {"enabled", "prefix", "owners", NULL};
    struct convoy_json inside;
    int result;

    if ((result = convoy_json_object(root, "shared_memory", &inside, error)) < 0 ||
        (result = convoy_json_known(&inside, known, error)) < 0 ||
        (result = convoy_json_bool(&inside, "enabled", &shared_memory->enabled, error)) < 0 ||
        (result = read_prefix(&inside, &shared_memory->prefix, error)) < 0)
        return result;
    return convoy_json_strings(&inside, "owners", names_user, "a user's name or number",
                               &shared_memory->owners, error);
}

void convoy_shared_memory_config_clear(struct convoy_shared_memory_config *shared_memory)
{
    free(shared_memory->prefix);
    convoy_json_strings_free(shared_memory->owners);
    *shared_memory = (struct convoy_shared_memory_config){0};
}

bool convoy_shared_memory_config_takes(const struct convoy_shared_memory_config *shared_memory,
                                       const char *key)
{
    const char *prefix = shared_memory->prefix != NULL ? shared_memory->prefix : "/";
    return strncmp(key, prefix, strlen(prefix)) == 0;
}

int convoy_shared_memory_config_owners(const struct convoy_shared_memory_config *shared_memory,
                                       uid_t **owners, size_t *count, struct convoy_error *error)
{
    size_t named = 0;
    while (shared_memory->owners != NULL && shared_memory->owners[named] != NULL)
        named++;
    uid_t *list = calloc(named + 1, sizeof *list);
    if (list == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for shared_memory.owners");
    list[0] = geteuid();
    for (size_t i = 0; i < named; i++) {
        int code = convoy_user_find("shared_memory.owners", shared_memory->owners[i], &list[i], error);
        if (code != 0) {
            free(list);
            return code;
        }
    }
    *owners = list;
    *count = named > 0 ? named : 1;
    return 0;
}
