#include "engine/worker/own_user.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEPT (1u << CAP_DAC_READ_SEARCH | 1u << CAP_IPC_LOCK) /* both below 32 */

struct identity {
    uid_t uid;
    gid_t gid;
    gid_t groups[CONVOY_MOST_GROUPS];
    size_t group_count;
};

/* Capabilities belong to a thread; those that are made later have what their maker has. */
static bool read_capabilities(struct __user_cap_data_struct have[_LINUX_CAPABILITY_U32S_3])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    return syscall(SYS_capget, &header, have) == 0;
}

static bool may(unsigned capability)
{
    struct __user_cap_data_struct have[_LINUX_CAPABILITY_U32S_3];
    return read_capabilities(have) && (have[0].permitted >> capability & 1) != 0;
}

/* Leaves KEPT of what is permitted. A change of the user emptied what is effective. The call is made only
 * where there is something to give up: a service's filter may refuse it (systemd's @privileged). */
static int drop_capabilities(struct convoy_error *error)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[_LINUX_CAPABILITY_U32S_3] = {0},
                                  wanted[_LINUX_CAPABILITY_U32S_3] = {0};
    if (read_capabilities(have))
        wanted[0].permitted = wanted[0].effective = have[0].permitted & KEPT;
    return memcmp(have, wanted, sizeof have) == 0 || syscall(SYS_capset, &header, wanted) == 0
               ? 0
               : convoy_fail(error, -errno, "the worker cannot give up its capabilities: %s",
                             strerror(errno));
}

/* A number at *text, behind which is the end or a character and another number; *text goes on there. */
static bool read_number(const char **text, uint32_t *number)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(*text, &end, 10);
    if (!isdigit((unsigned char)**text) || errno != 0 || value >= UINT32_MAX ||
        (*end != '\0' && !isdigit((unsigned char)end[1])))
        return false;
    *number = (uint32_t)value;
    *text = *end != '\0' ? end + 1 : end;
    return true;
}

static int read_identity(const char *user, struct identity *identity, struct convoy_error *error)
{
    const char *at = user;
    bool sound =
        strchr(user, ':') != NULL && read_number(&at, &identity->uid) && read_number(&at, &identity->gid);
    while (sound && *at != '\0' && identity->group_count < CONVOY_MOST_GROUPS)
        sound = read_number(&at, &identity->groups[identity->group_count++]);
    return sound && *at == '\0' ? 0 : convoy_fail(error, -EINVAL, "'%s' is no UID:GID[,GID...]", user);
}

/* A folder of the user's own in *cache_dir. Root's stays root's: what the worker leaves there is not read by
 * root, and nothing of root's is given away. */
static void make_own_folder(const struct identity *identity, const char **cache_dir)
{
    char *own;
    if (cache_dir == NULL || *cache_dir == NULL ||
        asprintf(&own, "%s/uid-%u", *cache_dir, (unsigned)identity->uid) < 0)
        return;
    (void)mkdir(*cache_dir, 0755);
    (void)mkdir(own, 0700);
    int folder = open(own, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0) {
        (void)!fchown(folder, identity->uid, identity->gid);
        close(folder);
    }
    *cache_dir = own;
}

static int change(const struct identity *identity, struct convoy_error *error)
{
    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    if (setgroups(identity->group_count, identity->groups) != 0 ||
        setresgid(identity->gid, identity->gid, identity->gid) != 0 ||
        setresuid(identity->uid, identity->uid, identity->uid) != 0)
        return convoy_fail(
            error, -errno,
            "the worker cannot become user %u: %s (worker.user is for a daemon that root starts)",
            (unsigned)identity->uid, strerror(errno));
    return 0;
}

/* What a worker needs to run as another user, and the daemon to signal it then. */
static bool may_change(void)
{
    return may(CAP_SETUID) && may(CAP_SETGID) && may(CAP_DAC_READ_SEARCH) && may(CAP_KILL);
}

int convoy_worker_take_own_user(const char *user, const char **cache_dir, struct convoy_error *error)
{
    struct identity identity = {.uid = CONVOY_OWN_UID, .gid = CONVOY_OWN_UID};
    struct convoy_error why_not = {{0}};
    bool changed = false;
    const char *shared = cache_dir != NULL ? *cache_dir : NULL;
    gid_t before = getegid();
    int code = user != NULL ? read_identity(user, &identity, error) : 0;
    bool wanted = identity.uid != geteuid() && (user != NULL || geteuid() == 0);
    if (wanted && user == NULL && !may_change()) {
        convoy_fail(
            &why_not, 0,
            "it stays root, which lacks CAP_SETUID, CAP_SETGID, CAP_DAC_READ_SEARCH or CAP_KILL here");
        wanted = false;
    }
    if (code == 0 && wanted) {
        make_own_folder(&identity, cache_dir);
        code = change(&identity, error);
        changed = code == 0;
        /* Not in this user namespace, e.g.: nothing is lost that the daemon did not have anyway. */
        if (code != 0 && user == NULL && geteuid() == 0 &&
            (getegid() == before || setresgid(before, before, before) == 0)) {
            code = convoy_fail(&why_not, 0, "it stays root: %s", error->message);
            if (cache_dir != NULL)
                *cache_dir = shared;
        }
    }
    if (code != 0)
        return code;
    code = drop_capabilities(error);
    if (code != 0 && !changed) { /* it keeps what the daemon has */
        why_not = *error;
        code = 0;
    }
    if (code == 0)
        *error = why_not;
    return code;
}
