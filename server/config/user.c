#include "server/config/user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_GROUPS 17 /* its own is among them */

int convoy_user_find(const char *key, const char *text, uid_t *uid, struct convoy_error *error)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    bool digits = text[strspn(text, "0123456789")] == '\0';
    if (digits && errno == 0 && number < (uid_t)-1) {
        *uid = (uid_t)number;
        return 0;
    }
    const struct passwd *user = digits ? NULL : getpwnam(text);
    if (user == NULL)
        return convoy_fail(error, -EINVAL, "%s: this machine has no user '%s': name one, or give a number",
                           key, text);
    *uid = user->pw_uid;
    return 0;
}

int convoy_user_identity(const char *key, const char *text, char identity[CONVOY_USER_IDENTITY_BYTES],
                         struct convoy_error *error)
{
    gid_t groups[MOST_GROUPS];
    int count = MOST_GROUPS;
    uid_t uid;
    int code = convoy_user_find(key, text, &uid, error);
    if (code != 0)
        return code;
    const struct passwd *user = getpwuid(uid);
    gid_t own = user != NULL ? user->pw_gid : (gid_t)uid;
    if (user == NULL)
        count = 0;
    else if (getgrouplist(user->pw_name, own, groups, &count) < 0)
        return convoy_fail(error, -EINVAL, "%s: user '%s' is in %d groups, and at most %d can be kept", key,
                           text, count, MOST_GROUPS);
    int length = snprintf(identity, CONVOY_USER_IDENTITY_BYTES, "%u:%u", (unsigned)uid, (unsigned)own);
    for (int i = 0; i < count; i++)
        if (groups[i] != own)
            length += snprintf(identity + length, CONVOY_USER_IDENTITY_BYTES - (size_t)length, ",%u",
                               (unsigned)groups[i]);
    return 0;
}
