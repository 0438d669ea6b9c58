/* Which of a model's versions are served: the key "version_policy" of its config.json.
 *
 *     "all"                      every version in its folder (what holds without the key)
 *     {"latest": N}              the N highest
 *     {"specific": [1, 3]}       those that are named, as far as they are there
 *
 * Plain data; any thread may read it. */
#ifndef CONVOY_SERVER_VERSION_POLICY_H
#define CONVOY_SERVER_VERSION_POLICY_H

#include "engine/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct convoy_json;

/* All zero: every version. */
struct convoy_version_policy {
    uint32_t latest;    /* not 0: the highest so many */
    uint32_t *specific; /* not NULL: these; malloc'd */
    uint32_t specific_count;
};

/* Reads the key from a model's configuration; without the key *policy stays as it is. -EINVAL, -ENOMEM. The
 * owner of *policy frees it, also after an error. */
int convoy_version_policy_read(const struct convoy_json *root, struct convoy_version_policy *policy,
                               struct convoy_error *error);
void convoy_version_policy_free(struct convoy_version_policy *policy);

/* True when this version is served, where `higher` versions of the model are higher. */
bool convoy_version_policy_serves(const struct convoy_version_policy *policy, uint32_t version,
                                  uint32_t higher);

#endif
