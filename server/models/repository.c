#include "server/models/repository.h"

#include "engine/base/hash.h"
#include "engine/base/reason.h"
#include "server/config/model_name.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL_FILE   "model.onnx"
#define MODEL_SUFFIX ".onnx"
#define HUB_FOLDER   "onnx" /* where the Hugging Face hub has a model's ONNX files */

__attribute__((format(printf, 3, 4))) static int note(struct convoy_repository *repository,
                                                      enum convoy_log_level level, const char *format, ...)
{
    /* 2^k - 1 notes or none fill the array: time to double it. */
    uint32_t count = repository->note_count;
    if ((count & (count + 1)) == 0) {
        struct convoy_repository_note *grown =
            realloc(repository->notes, (2 * (size_t)count + 1) * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        repository->notes = grown;
    }
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return -ENOMEM;
    repository->notes[count] = (struct convoy_repository_note){.level = level, .text = text};
    repository->note_count++;
    return 0;
}

static void free_entry(struct convoy_repository_entry *entry)
{
    free(entry->name);
    free(entry->version);
    free(entry->folder);
    free(entry->path);
    free(entry->problem);
}

static bool is_model_file(const char *name)
{
    size_t length = strlen(name), suffix = sizeof MODEL_SUFFIX - 1;
    return length > suffix && strcmp(name + length - suffix, MODEL_SUFFIX) == 0;
}

/* The first .onnx file of a folder, malloc'd, or NULL: a model under a name of its own. */
static char *find_other_name(const char *folder)
{
    char *name = NULL;
    const struct dirent *item;
    DIR *directory = opendir(folder);
    while (directory != NULL && name == NULL && (item = readdir(directory)) != NULL)
        if (item->d_name[0] != '.' && is_model_file(item->d_name))
            name = strdup(item->d_name);
    if (directory != NULL)
        closedir(directory);
    return name;
}

static int name_missing(const char *own, char **problem)
{
    char *other = find_other_name(own);
    int length = other != NULL ? asprintf(problem, "%s holds no %s: if %s is the model, rename it", own,
                                          MODEL_FILE, other)
                               : asprintf(problem, "%s holds no %s", own, MODEL_FILE);
    free(other);
    return length;
}

/* Why the version in folder `own` cannot be served: *problem is NULL when nothing is wrong, else malloc'd. */
static int find_problem(const char *own, const char *path, char **problem)
{
    struct stat status;
    int code = stat(path, &status) < 0 ? errno : 0;
    int length = 0;
    *problem = NULL;
    if (code == ENOENT)
        length = name_missing(own, problem);
    else if (code != 0)
        length = asprintf(problem, "%s cannot be reached: %s", path, strerror(code));
    else if (!S_ISREG(status.st_mode))
        length = asprintf(problem, "%s is not a regular file", path);
    if (length < 0)
        *problem = NULL;
    return length < 0 ? -ENOMEM : 0;
}

static bool is_note(const char *name)
{
    size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".md") == 0;
}

/* A number computed from names, sizes, inodes and times of a folder's files, in any order: another number
 * means a change, and no file has to be read. Adds to *bytes the sizes of the files whose names begin with
 * `counted`. A folder that cannot be read counts as empty. */
static uint64_t stamp_of(const char *folder, const char *counted, uint64_t *bytes)
{
    uint64_t stamp = 0;
    DIR *directory = opendir(folder);
    const struct dirent *item;
    struct stat status;
    while (directory != NULL && (item = readdir(directory)) != NULL) {
        if (item->d_name[0] == '.' || is_note(item->d_name) ||
            fstatat(dirfd(directory), item->d_name, &status, 0) != 0 || !S_ISREG(status.st_mode))
            continue;
        const uint64_t looks[] = {(uint64_t)status.st_size, (uint64_t)status.st_ino,
                                  (uint64_t)status.st_mtim.tv_sec, (uint64_t)status.st_mtim.tv_nsec};
        uint64_t hash = convoy_hash(0, item->d_name, strlen(item->d_name));
        stamp += convoy_hash(hash, looks, sizeof looks);
        if (strncmp(item->d_name, counted, strlen(counted)) == 0)
            *bytes += (uint64_t)status.st_size;
    }
    if (directory != NULL)
        closedir(directory);
    return stamp;
}

/* The version's own files, in the folder `own`, and those that all versions of the model share. A folder that
 * was made for others, too, holds the same model in other formats. */
static void stamp_entry(struct convoy_repository_entry *entry, const char *own, bool versioned)
{
    uint64_t shared_bytes = 0;
    entry->stamp = 3 * stamp_of(own, versioned ? "" : MODEL_FILE, &entry->bytes) +
                   stamp_of(entry->folder, "", &shared_bytes);
}

/* own: the folder that model.onnx lies in: folder/version where versioned, else another one. */
static int add_entry(struct convoy_repository *repository, const char *name, const char *version,
                     const char *folder, const char *own, bool versioned)
{
    uint32_t count = repository->entry_count;
    if ((count & (count + 1)) == 0) {
        struct convoy_repository_entry *grown =
            realloc(repository->entries, (2 * (size_t)count + 1) * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        repository->entries = grown;
    }
    struct convoy_repository_entry entry = {.name = strdup(name),
                                            .version = strdup(version),
                                            .number = (uint32_t)strtoul(version, NULL, 10),
                                            .folder = strdup(folder)};
    if (asprintf(&entry.path, "%s/%s", own, MODEL_FILE) < 0)
        entry.path = NULL;
    if (entry.name == NULL || entry.version == NULL || entry.folder == NULL || entry.path == NULL ||
        find_problem(own, entry.path, &entry.problem) < 0) {
        free_entry(&entry);
        return -ENOMEM;
    }
    stamp_entry(&entry, own, versioned);
    repository->entries[count] = entry;
    repository->entry_count++;
    return 0;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_there(const char *folder, const char *name)
{
    char *path = NULL;
    struct stat status;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return false;
    bool there = stat(path, &status) == 0;
    free(path);
    return there;
}

static int by_name(const struct dirent **left, const struct dirent **right)
{
    return strcmp((*left)->d_name, (*right)->d_name);
}

static int not_hidden(const struct dirent *item)
{
    return item->d_name[0] != '.';
}

static void free_names(struct dirent **names, int count)
{
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

/* A model file lies where a version's folder belongs. A folder named by a number is most likely itself a
 * version, and what was given as the folder of all models is a single one. */
static int note_flat(struct convoy_repository *repository, const char *name, const char *folder,
                     const char *path)
{
    int above = (int)(strlen(folder) - strlen(name) - 1);
    if (convoy_model_version_valid(name))
        return note(
            repository, CONVOY_LOG_WARNING,
            "%s is passed over: %.*s looks like a single model: the models folder is the one above it", path,
            above, folder);
    return note(repository, CONVOY_LOG_WARNING,
                "%s is passed over: a model is the file %s, in a folder named by its version where there are "
                "several; move it to %s/1/%s",
                path, MODEL_FILE, folder, MODEL_FILE);
}

/* Adds a model without folders of versions, as it was downloaded: model.onnx lies in its own folder or, as on
 * the Hugging Face hub, in "onnx". *found: whether it is one. */
static int add_unversioned(struct convoy_repository *repository, const char *name, const char *folder,
                           bool *found)
{
    bool flat = is_there(folder, MODEL_FILE);
    char *own = NULL;
    *found = !convoy_model_version_valid(name) && (flat || is_there(folder, HUB_FOLDER "/" MODEL_FILE));
    if (!*found)
        return 0;
    if (asprintf(&own, flat ? "%s" : "%s/" HUB_FOLDER, folder) < 0)
        return -ENOMEM;
    int result = convoy_model_name_valid(name) ? add_entry(repository, name, "1", folder, own, false) : 0;
    free(own);
    return result;
}

/* A download from the hub without the file that is served. */
static int note_hub(struct convoy_repository *repository, const char *path, bool *noted)
{
    char *other = find_other_name(path);
    *noted |= other != NULL;
    int result = other == NULL ? 0
                               : note(repository, CONVOY_LOG_WARNING,
                                      "%s is passed over: it holds no %s; if %s is the model, rename it",
                                      path, MODEL_FILE, other);
    free(other);
    return result;
}

/* Something in a model's folder that is no version. *noted: whether it looks like a model. */
static int note_other(struct convoy_repository *repository, const char *name, const char *folder,
                      const char *path, bool *noted)
{
    bool folded = is_folder(path);
    if (folded && strcmp(path + strlen(folder) + 1, HUB_FOLDER) == 0 && !is_there(path, MODEL_FILE))
        return note_hub(repository, path, noted);
    if (!(folded ? is_there(path, MODEL_FILE) : is_model_file(path)))
        return 0;
    *noted = true;
    if (!folded)
        return note_flat(repository, name, folder, path);
    return note(repository, CONVOY_LOG_WARNING,
                "%s is passed over: a version is a whole number from 1 without leading zeros, e.g. %s/1",
                path, folder);
}

/* Adds the versions in models/NAME and counts them, which of a name that cannot be served are counted alone.
 */
static int add_versions(struct convoy_repository *repository, const char *name, const char *folder,
                        struct dirent **items, int count, uint32_t *versions)
{
    int result = 0;
    for (int i = 0; i < count && result == 0; i++) {
        const char *item = items[i]->d_name;
        char *own = NULL;
        if (!convoy_model_version_valid(item))
            continue;
        if (asprintf(&own, "%s/%s", folder, item) < 0)
            return -ENOMEM;
        if (is_folder(own)) {
            ++*versions;
            if (convoy_model_name_valid(name))
                result = add_entry(repository, name, item, folder, own, true);
        }
        free(own);
    }
    return result;
}

/* Notes what lies in models/NAME beside versions. *noted: something that looks like a model. */
static int note_others(struct convoy_repository *repository, const char *name, const char *folder,
                       struct dirent **items, int count, bool *noted)
{
    int result = 0;
    for (int i = 0; i < count && result == 0; i++) {
        char *path = NULL;
        if (convoy_model_version_valid(items[i]->d_name))
            continue;
        if (asprintf(&path, "%s/%s", folder, items[i]->d_name) < 0)
            return -ENOMEM;
        result = note_other(repository, name, folder, path, noted);
        free(path);
    }
    return result;
}

/* Looks through models/NAME for versions. */
static int scan_model(struct convoy_repository *repository, const char *name, const char *folder)
{
    struct dirent **items = NULL;
    uint32_t versions = 0;
    bool found = false, noted = false;
    int count = scandir(folder, &items, not_hidden, by_name);
    if (count < 0)
        return errno == ENOMEM ? -ENOMEM
                               : note(repository, CONVOY_LOG_WARNING,
                                      "%s cannot be read and is passed over: %s", folder, strerror(errno));
    int result = add_versions(repository, name, folder, items, count, &versions);
    if (result == 0 && versions == 0)
        result = add_unversioned(repository, name, folder, &found);
    if (result == 0 && !found)
        result = note_others(repository, name, folder, items, count, &noted);
    if (result == 0 && (versions > 0 || found) && !convoy_model_name_valid(name))
        result = note(repository, CONVOY_LOG_WARNING,
                      "%s is passed over: a model's name is 1 to %d letters, digits, '.', '_' or '-'", folder,
                      CONVOY_MODEL_NAME_BYTES);
    else if (result == 0 && versions == 0 && !found && !noted)
        result =
            note(repository, CONVOY_LOG_DEBUG, "%s holds no version of a model and is passed over", folder);
    free_names(items, count);
    return result;
}

static int by_name_then_number(const void *left, const void *right)
{
    const struct convoy_repository_entry *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    if (order != 0)
        return order;
    return (a->number > b->number) - (a->number < b->number);
}

/* Why the folder of all models cannot be read, and what to do. */
static int unreadable(const char *models, int code, struct convoy_error *error)
{
    char reason[CONVOY_REASON_BYTES], here[160];
    if (code == -ENOENT) {
        /* A relative path is looked for where the daemon was started, which is the usual mistake. */
        bool relative = models[0] != '/' && getcwd(here, sizeof here) != NULL;
        return convoy_fail(error, code,
                           "there is no models folder %s%s%s: create it and put each model at "
                           "%s/NAME/1/model.onnx, or name another folder with --models",
                           models, relative ? " in " : "", relative ? here : "", models);
    }
    if (code == -ENOTDIR)
        return convoy_fail(error, code,
                           "the models folder %s is a file: name the folder in which models lie as "
                           "NAME/VERSION/model.onnx",
                           models);
    return convoy_fail(error, code, "the models folder %s cannot be read: %s", models,
                       convoy_reason(-code, reason));
}

/* What lies beside the models' folders. */
static int note_file(struct convoy_repository *repository, const char *name, const char *path)
{
    if (!is_model_file(name))
        return note(repository, CONVOY_LOG_DEBUG, "%s is no folder and is passed over", path);
    int above = (int)(strlen(path) - strlen(name) - 1), stem = (int)(strlen(name) - sizeof MODEL_SUFFIX + 1);
    return note(repository, CONVOY_LOG_WARNING,
                "%s is passed over: a model lies in folders named by its name and version; move it to "
                "%.*s/%.*s/1/%s",
                path, above, path, strcmp(name, MODEL_FILE) == 0 ? 4 : stem,
                strcmp(name, MODEL_FILE) == 0 ? "NAME" : name, MODEL_FILE);
}

int convoy_repository_read(const char *models, struct convoy_repository *repository,
                           struct convoy_error *error)
{
    struct convoy_repository found = {0};
    struct dirent **items = NULL;
    int result = 0;
    int count = scandir(models, &items, not_hidden, by_name);
    if (count < 0)
        return unreadable(models, -errno, error);
    int length = (int)strlen(models);
    while (length > 1 && models[length - 1] == '/')
        length--; /* "models/" is named as "models" is */
    for (int i = 0; i < count && result == 0; i++) {
        char *folder = NULL;
        if (asprintf(&folder, "%.*s/%s", length, models, items[i]->d_name) < 0) {
            result = -ENOMEM;
            break;
        }
        if (is_folder(folder))
            result = scan_model(&found, items[i]->d_name, folder);
        else
            result = note_file(&found, items[i]->d_name, folder);
        free(folder);
    }
    free_names(items, count);
    if (result < 0) {
        convoy_repository_free(&found);
        return convoy_fail(error, result, "out of memory while the models folder %s was read", models);
    }
    if (found.entry_count > 0)
        qsort(found.entries, found.entry_count, sizeof found.entries[0], by_name_then_number);
    *repository = found;
    return 0;
}

void convoy_repository_free(struct convoy_repository *repository)
{
    for (uint32_t i = 0; i < repository->entry_count; i++)
        free_entry(&repository->entries[i]);
    for (uint32_t i = 0; i < repository->note_count; i++)
        free(repository->notes[i].text);
    free(repository->entries);
    free(repository->notes);
    *repository = (struct convoy_repository){0};
}
