/* The model repository: models/NAME/VERSION/model.onnx, found by names; no model file is opened. A folder
 * models/NAME without a folder of a version may hold model.onnx itself, or onnx/model.onnx as a download from
 * the Hugging Face hub does: version 1.
 *
 * server/config/model_name.h says what NAME and VERSION may be. Everything else (files, folders without
 * versions, hidden names) is skipped with a note. Symbolic links are followed, because Kubernetes volumes are
 * made of them.
 *
 * Threads: plain data and no state; a repository belongs to the thread that read it. */
#ifndef CONVOY_SERVER_REPOSITORY_H
#define CONVOY_SERVER_REPOSITORY_H

#include "engine/base/error.h"
#include "engine/base/log.h"

#include <stdbool.h>
#include <stdint.h>

/* Strings belong to the repository. */
struct convoy_repository_entry {
    char *name;      /* NAME */
    char *version;   /* VERSION */
    uint32_t number; /* VERSION as a number */
    char *folder;    /* models/NAME: config.json and labels.txt are here */
    char *path;      /* models/NAME/VERSION/model.onnx, or where else it lies */
    char *problem;   /* NULL, or a sentence why it cannot be served: the model is FAILED */
    uint64_t bytes;  /* of the version's files (else of those named model.onnx*): about what a device needs */
    /* Changes when a file of path's folder or of models/NAME is written, replaced, added or removed;
     * files *.md do not count. Computed from names, sizes, inodes and times of modification. */
    uint64_t stamp;
};

struct convoy_repository_note {
    enum convoy_log_level level; /* warning for what looks like a mistake, else debug */
    char *text;                  /* a sentence that names the folder or file */
};

struct convoy_repository {
    struct convoy_repository_entry *entries; /* by name (bytes), then by number */
    uint32_t entry_count;
    struct convoy_repository_note *notes;
    uint32_t note_count;
};

/* Reads the folder models. An empty repository is no error. -ENOENT, -ENOTDIR, -EACCES, ...: the folder
 * cannot be read; -ENOMEM. The caller frees *repository with convoy_repository_free(), which is not needed
 * after an error. */
int convoy_repository_read(const char *models, struct convoy_repository *repository,
                           struct convoy_error *error);

void convoy_repository_free(struct convoy_repository *repository); /* all-zero is allowed */

#endif
