/* The master remembers which versions are READY, so that a front that follows can tell what it would lose. */
#include "server/repository/manager_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MARK   "versions that are ready are told"
#define PREFIX "ready "

enum { KEY_BYTES = sizeof MARK + CONVOY_MODEL_NAME_BYTES + 32 };

static void make_key(const struct convoy_model_record *model, char key[KEY_BYTES])
{
    snprintf(key, KEY_BYTES, PREFIX "%s/%s", model->name, model->version);
}

/* Whether some reading of the version with this key is READY. */
static bool is_ready(const struct convoy_manager *manager, const char *key)
{
    char own[KEY_BYTES];
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(manager->registry, i);
        if (model == NULL || model->state != CONVOY_MODEL_READY)
            continue;
        make_key(model, own);
        if (strcmp(own, key) == 0)
            return true;
    }
    return false;
}

void convoy_manager_ready_tell(struct convoy_manager *manager)
{
    char key[KEY_BYTES];
    if (!manager->marked)
        convoy_link_hold(manager->tells, MARK, -1);
    manager->marked = true;
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(manager->registry, i);
        if (model == NULL || model->plan.told == (model->state == CONVOY_MODEL_READY))
            continue;
        model->plan.told = !model->plan.told;
        make_key(model, key);
        if (model->plan.told)
            convoy_link_hold(manager->tells, key, -1);
        else if (!is_ready(manager, key))
            convoy_link_drop(manager->tells, key);
    }
}

void convoy_manager_ready_follow(struct convoy_manager *manager)
{
    char key[KEY_BYTES] = PREFIX;
    (void)convoy_link_take_remark(manager->tells, MARK, key, sizeof key);
    for (;;) {
        memcpy(key, PREFIX, sizeof PREFIX);
        if (!convoy_link_take_remark(manager->tells, PREFIX, key + sizeof PREFIX - 1,
                                     sizeof key - sizeof PREFIX + 1))
            return;
        if (!is_ready(manager, key))
            convoy_link_drop(manager->tells, key);
    }
}

int convoy_manager_check_ready(struct convoy_manager *manager, struct convoy_error *error)
{
    char key[KEY_BYTES];
    bool known = convoy_link_has_remark(manager->tells, MARK);
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(manager->registry, i);
        if (model == NULL || model->state != CONVOY_MODEL_FAILED)
            continue;
        make_key(model, key);
        if (!is_ready(manager, key) && (!known || convoy_link_has_remark(manager->tells, key)))
            return convoy_fail(error, -EINVAL, "model %s, version %s, is not loaded: %s", model->name,
                               model->version, model->reason);
    }
    return 0;
}
