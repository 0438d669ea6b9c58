#include "engine/worker/confine_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of versions of the ABI later than the headers of Debian 12. */
#define ACCESS_TRUNCATE  (UINT64_C(1) << 14) /* 3 */
#define ACCESS_IOCTL_DEV (UINT64_C(1) << 15) /* 5 */

#define READ   (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RUN    (READ | LANDLOCK_ACCESS_FS_EXECUTE)
#define DEVICE (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_IOCTL_DEV)
#define CHANGE                                                                                               \
    (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE | LANDLOCK_ACCESS_FS_MAKE_REG |                  \
     LANDLOCK_ACCESS_FS_REMOVE_FILE)
/* What a rule on a file that is no folder may say. */
#define OF_FILES                                                                                             \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |             \
     ACCESS_TRUNCATE | ACCESS_IOCTL_DEV)

/* A pattern of glob(3), so that one line stands for all GPUs. */
struct place {
    const char *pattern;
    uint64_t access;
};

/* Programs and libraries where distributions, CUDA, Nix and Guix put them; what the C library, OpenMP and a
 * GPU's driver ask of the system; devices. Of other processes /proc shows the command line; their memory
 * and environment the kernel closes to a confined process. /dev/shm is not here: it holds what clients share.
 */
static const struct place places[] = {
    {"/usr", RUN},
    {"/lib*", RUN},
    {"/bin", RUN},
    {"/opt", RUN},
    {"/nix/store", RUN},
    {"/gnu/store", RUN},
    {"/etc/ld.so.*", READ},
    {"/etc/localtime", READ},
    {"/etc/nvidia*", READ},
    {"/proc", READ},
    {"/proc/self/task", READ | LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE}, /* names of threads */
    {"/sys", READ},
    {"/dev/null", DEVICE},
    {"/dev/zero", DEVICE},
    {"/dev/*random", DEVICE},
    {"/dev/nvidia*", DEVICE},
    {"/dev/dxg", DEVICE}, /* the GPU's under WSL */
};

static long add_rule(int ruleset, uint64_t handled, int path, uint64_t access)
{
    struct stat status;
    struct landlock_path_beneath_attr rule = {.parent_fd = path, .allowed_access = access & handled};
    if (fstat(path, &status) == 0 && !S_ISDIR(status.st_mode))
        rule.allowed_access &= OF_FILES;
    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

/* What is not there needs no rule: it can be neither read nor made. */
static void allow(int ruleset, uint64_t handled, const char *name, uint64_t access)
{
    int path = open(name, O_PATH | O_CLOEXEC);
    if (path < 0)
        return;
    (void)add_rule(ruleset, handled, path, access); /* a rule that fails leaves the place closed */
    close(path);
}

static void allow_places(int ruleset, uint64_t handled)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        glob_t found;
        if (glob(places[i].pattern, GLOB_NOSORT, NULL, &found) == 0)
            for (size_t j = 0; j < found.gl_pathc; j++)
                allow(ruleset, handled, found.gl_pathv[j], places[i].access);
        globfree(&found);
    }
}

/* The worker's own programs and modules, which may lie anywhere. */
static void allow_own_program(int ruleset, uint64_t handled)
{
    char path[PATH_MAX], libraries[PATH_MAX + sizeof "/../lib"];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0)
        return;
    path[length] = '\0';
    const char *folder = dirname(path);
    snprintf(libraries, sizeof libraries, "%s/../lib", folder);
    allow(ruleset, handled, folder, RUN);
    allow(ruleset, handled, libraries, RUN);
}

/* Where the loader was told to look for libraries. */
static void allow_library_path(int ruleset, uint64_t handled)
{
    const char *list = getenv("LD_LIBRARY_PATH");
    char *copy = list != NULL ? strdup(list) : NULL, *rest = NULL;
    for (char *folder = copy != NULL ? strtok_r(copy, ":", &rest) : NULL; folder != NULL;
         folder = strtok_r(NULL, ":", &rest))
        allow(ruleset, handled, folder, RUN);
    free(copy);
}

/* Entries of the models' folder that are links: a rule on the folder does not hold where they lead. */
static void allow_links(int ruleset, uint64_t handled, const char *models)
{
    DIR *folder = opendir(models);
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        int path = openat(dirfd(folder), entry->d_name, O_PATH | O_CLOEXEC);
        struct stat status;
        if (path >= 0 && fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(status.st_mode))
            (void)add_rule(ruleset, handled, path, READ);
        if (path >= 0)
            close(path);
    }
    if (folder != NULL)
        closedir(folder);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* Where a sanitizer writes its report, when there is one. */
static void allow_reports(int ruleset, uint64_t handled)
{
    char path[PATH_MAX] = "";
    const char *options = getenv("ASAN_OPTIONS");
    const char *found = options != NULL ? strstr(options, "log_path=") : NULL;
    if (found == NULL && (options = getenv("TSAN_OPTIONS")) != NULL)
        found = strstr(options, "log_path=");
    if (found != NULL)
        strncat(path, found + strlen("log_path="), strcspn(found + strlen("log_path="), ":"));
    if (path[0] != '\0')
        allow(ruleset, handled, dirname(path), CHANGE);
}
#else
static void allow_reports(int ruleset, uint64_t handled)
{
    (void)ruleset;
    (void)handled;
}
#endif

static void allow_all(int ruleset, uint64_t handled, const struct convoy_worker_folders *folders)
{
    allow_places(ruleset, handled);
    allow_own_program(ruleset, handled);
    allow_library_path(ruleset, handled);
    allow_reports(ruleset, handled);
    for (uint32_t i = 0; i < folders->count; i++)
        allow(ruleset, handled, folders->read[i], READ);
    if (folders->count > 0)
        allow_links(ruleset, handled, folders->read[0]);
    if (folders->write != NULL) {
        (void)mkdir(folders->write, 0755);
        allow(ruleset, handled, folders->write, CHANGE);
    }
}

/* All that this version of the ABI can refuse in files. */
static uint64_t handled_access(long abi)
{
    uint64_t handled = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1; /* the last right of version 1 */
    if (abi >= 2)
        handled |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 3)
        handled |= ACCESS_TRUNCATE;
    if (abi >= 5)
        handled |= ACCESS_IOCTL_DEV;
    return handled;
}

/* Landlock holds for the thread that asks for it, and what it makes. */
static bool has_other_threads(void)
{
    int threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    while (tasks != NULL && (entry = readdir(tasks)) != NULL)
        threads += entry->d_name[0] != '.';
    if (tasks != NULL)
        closedir(tasks);
    return threads > 1;
}

int convoy_worker_confine_files(const struct convoy_worker_folders *folders, struct convoy_error *error)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 0)
        return convoy_fail(error, -errno, "this kernel or container has no Landlock: %s", strerror(errno));
    if (has_other_threads())
        return convoy_fail(error, -EBUSY, "the process has other threads already, which a library started");
    struct landlock_ruleset_attr attributes = {.handled_access_fs = handled_access(abi)};
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
    if (ruleset < 0)
        return convoy_fail(error, -errno, "files cannot be confined: %s", strerror(errno));
    allow_all(ruleset, attributes.handled_access_fs, folders);
    int code = 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
        code = convoy_fail(error, -errno, "files cannot be confined: %s", strerror(errno));
    close(ruleset);
    return code == 0 ? (int)abi : code;
}
