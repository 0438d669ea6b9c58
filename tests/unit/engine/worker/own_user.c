/* The user that a process takes, in children of the test. */
#include "engine/worker/own_user.h"

#include "tests/unit/folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

TestSuite(own_user, .timeout = 60);

/* What a child came to. */
struct outcome {
    int code;
    uid_t real, effective, saved;
    gid_t gid;
    int groups; /* how many */
    uint32_t permitted, effective_capabilities;
    bool writes_root; /* it may write root's file */
    bool reads_root;  /* it may read a file that only root may read */
    char cache_dir[128];
    struct convoy_error error;
};

static void look(const char *roots, struct outcome *outcome)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[_LINUX_CAPABILITY_U32S_3] = {0};
    getresuid(&outcome->real, &outcome->effective, &outcome->saved);
    outcome->gid = getegid();
    outcome->groups = getgroups(0, NULL);
    syscall(SYS_capget, &header, have);
    outcome->permitted = have[0].permitted;
    outcome->effective_capabilities = have[0].effective;
    int file = open(roots, O_RDONLY);
    outcome->reads_root = file >= 0;
    file = open(roots, O_WRONLY);
    outcome->writes_root = file >= 0;
}

#define NO_NAMESPACE 1 /* in place of a code */

static bool alone; /* the child is in a user namespace that has one user */

static bool be_alone(void)
{
    int map = unshare(CLONE_NEWUSER) == 0 ? open("/proc/self/uid_map", O_WRONLY) : -1;
    bool written = map >= 0 && write(map, "0 0 1", 5) == 5;
    if (map >= 0)
        close(map);
    return written;
}

static struct outcome take(const char *user, const char *cache_dir, const char *roots, uint32_t dropped)
{
    struct outcome outcome = {0};
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        for (unsigned i = 0; i < 32; i++)
            if (dropped >> i & 1) {
                struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
                struct __user_cap_data_struct have[_LINUX_CAPABILITY_U32S_3];
                syscall(SYS_capget, &header, have);
                have[0].permitted &= ~(1u << i);
                have[0].effective &= ~(1u << i);
                syscall(SYS_capset, &header, have);
            }
        outcome.code = alone && !be_alone() ? NO_NAMESPACE
                                            : convoy_worker_take_own_user(user, &cache_dir, &outcome.error);
        snprintf(outcome.cache_dir, sizeof outcome.cache_dir, "%s", cache_dir != NULL ? cache_dir : "");
        look(roots, &outcome);
        _exit(write(ends[1], &outcome, sizeof outcome) == (ssize_t)sizeof outcome ? 0 : 1);
    }
    cr_assert_gt(child, 0);
    cr_assert_eq(read(ends[0], &outcome, sizeof outcome), (ssize_t)sizeof outcome);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    return outcome;
}

/* A folder with a file that only its owner may read. */
static struct folder make_roots(const char **file)
{
    struct folder folder = folder_make();
    *file = folder_write(&folder, "roots", "key");
    cr_assert_eq(chmod(*file, 0600), 0);
    cr_assert_eq(chmod(folder.path, 0755), 0);
    return folder;
}

#define NEEDED (1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_DAC_READ_SEARCH | 1u << CAP_KILL)

static bool is_root_with_all(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[_LINUX_CAPABILITY_U32S_3] = {0};
    return geteuid() == 0 && syscall(SYS_capget, &header, have) == 0 &&
           (have[0].effective & NEEDED) == NEEDED;
}

Test(own_user, root_becomes_a_user_that_reads_and_does_not_write)
{
    const char *file;
    if (!is_root_with_all())
        cr_skip_test("only root can become another user");
    struct folder folder = make_roots(&file);
    struct outcome outcome = take(NULL, NULL, file, 0);
    folder_remove(&folder);
    cr_assert_eq(outcome.code, 0, "%s", outcome.error.message);
    cr_assert_str_empty(outcome.error.message);
    cr_assert(outcome.real == CONVOY_OWN_UID && outcome.effective == CONVOY_OWN_UID &&
              outcome.saved == CONVOY_OWN_UID);
    cr_assert_eq(outcome.gid, CONVOY_OWN_UID);
    cr_assert_eq(outcome.groups, 0);
    cr_assert_eq(outcome.permitted & ~(1u << CAP_DAC_READ_SEARCH | 1u << CAP_IPC_LOCK), 0u);
    cr_assert_eq(outcome.effective_capabilities, outcome.permitted);
    cr_assert(outcome.reads_root);
    cr_assert_not(outcome.writes_root);
    cr_assert_str_empty(outcome.cache_dir);
}

static void assert_stays_root(const struct outcome *outcome, const char *cache_dir)
{
    cr_assert_eq(outcome->code, 0, "%s", outcome->error.message);
    cr_assert_eq(outcome->effective, 0u);
    cr_assert_not_null(strstr(outcome->error.message, "it stays root"), "%s", outcome->error.message);
    cr_assert_str_eq(outcome->cache_dir, cache_dir);
}

Test(own_user, root_stays_where_models_could_not_be_read_or_the_worker_not_be_killed)
{
    static const unsigned lacks[] = {CAP_DAC_READ_SEARCH, CAP_KILL};
    const char *file;
    if (!is_root_with_all())
        cr_skip_test("only root can become another user");
    struct folder folder = make_roots(&file);
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++) {
        struct outcome outcome = take(NULL, folder.path, file, 1u << lacks[i]);
        assert_stays_root(&outcome, folder.path);
    }
    folder_remove(&folder);
}

/* As in a container that has one user. */
Test(own_user, root_stays_where_there_is_no_other_user)
{
    const char *file;
    if (!is_root_with_all())
        cr_skip_test("only root can become another user");
    struct folder folder = make_roots(&file);
    alone = true;
    struct outcome outcome = take(NULL, folder.path, file, 0);
    if (outcome.code == NO_NAMESPACE) {
        folder_remove(&folder);
        cr_skip_test("there are no user namespaces");
    }
    assert_stays_root(&outcome, folder.path);
    folder_remove(&folder);
}

Test(own_user, a_named_user_is_taken_with_its_groups_and_writes_into_its_own_folder)
{
    const char *file;
    struct stat status;
    if (!is_root_with_all())
        cr_skip_test("only root can become another user");
    struct folder folder = make_roots(&file);
    struct outcome outcome = take("4711:4712,4713,4714", folder_path(&folder, "cache"), file, 0);
    cr_assert_eq(outcome.code, 0, "%s", outcome.error.message);
    cr_assert_eq(outcome.effective, 4711u);
    cr_assert_eq(outcome.gid, 4712u);
    cr_assert_eq(outcome.groups, 2);
    cr_assert_str_eq(outcome.cache_dir, folder_path(&folder, "cache/uid-4711"));
    cr_assert_eq(stat(outcome.cache_dir, &status), 0);
    cr_assert(status.st_uid == 4711 && status.st_gid == 4712 && (status.st_mode & 0777) == 0700);
    cr_assert_eq(stat(folder_path(&folder, "cache"), &status), 0);
    cr_assert_eq(status.st_uid, 0u, "a folder of root's is given away");
    folder_remove(&folder);
}

/* What lies under the folder's name may be a link that somebody else made. */
Test(own_user, a_link_in_place_of_its_folder_gives_nothing_away)
{
    const char *file;
    struct stat status;
    if (!is_root_with_all())
        cr_skip_test("only root can become another user");
    struct folder folder = make_roots(&file);
    cr_assert_eq(mkdir(folder_path(&folder, "roots-folder"), 0700), 0);
    cr_assert_eq(symlink("roots-folder", folder_path(&folder, "uid-4711")), 0);
    struct outcome outcome = take("4711:4711", folder.path, file, 0);
    cr_assert_eq(outcome.effective, 4711u);
    cr_assert_eq(stat(folder_path(&folder, "roots-folder"), &status), 0);
    cr_assert_eq(status.st_uid, 0u);
    folder_remove(&folder);
}

Test(own_user, what_is_no_user_is_refused)
{
    static const char *const wrong[] = {
        "",     "5",   "x:5",          "5:",
        "5:6,", "5:x", "4294967295:1", "1:2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19"};
    const char *file;
    struct folder folder = make_roots(&file);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct outcome outcome = take(wrong[i], NULL, file, 0);
        cr_assert_eq(outcome.code, -EINVAL, "%s", wrong[i]);
        cr_assert_eq(outcome.effective, geteuid());
    }
    folder_remove(&folder);
}

Test(own_user, another_user_than_root_stays_what_it_is)
{
    if (geteuid() == 0)
        cr_assert_eq(setresuid(4711, 4711, 4711), 0);
    struct outcome outcome = take(NULL, NULL, "/dev/null", 0);
    cr_assert_eq(outcome.code, 0);
    cr_assert_eq(outcome.effective, geteuid());
    outcome = take("4712:4712", NULL, "/dev/null", 0);
    cr_assert_eq(outcome.code, -EPERM, "%s", outcome.error.message);
}
