#include "server/config/role.h"

#include <string.h>

static const char *const names[] = {
    [CONVOY_ROLE_ADMIN] = "admin",
    [CONVOY_ROLE_INFER] = "infer",
    [CONVOY_ROLE_METRICS] = "metrics",
    [CONVOY_ROLE_NONE] = "",
};

const char *convoy_role_text(enum convoy_role role)
{
    return names[role];
}

bool convoy_role_parse(const char *text, size_t length, enum convoy_role *role)
{
    for (enum convoy_role at = CONVOY_ROLE_ADMIN; at < CONVOY_ROLE_NONE; at++) {
        if (strlen(names[at]) != length || memcmp(names[at], text, length) != 0)
            continue;
        *role = at;
        return true;
    }
    return false;
}
