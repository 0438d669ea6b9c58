/* labels.txt: the name of each class, one a line, in the order of the network's outputs. */
#ifndef CONVOY_SERVER_LABEL_FILE_H
#define CONVOY_SERVER_LABEL_FILE_H

#include "engine/base/error.h"

#include <stdint.h>

#define CONVOY_LABELS_MAX_BYTES (16u << 20)
#define CONVOY_LABELS_MAX       1000000u

/* Does not change after it was read; any thread may read it. */
struct convoy_label_list {
    uint32_t count;
    const char **labels; /* count of them, NUL-terminated UTF-8, in text */
    char *text;
    char *name; /* the file as the configuration names it, or NULL; set by convoy_model_config_load() */
};

/* Reads UTF-8 lines that end with LF or CR LF; the end of the last line is optional, a byte order mark is
 * skipped. An empty line in the middle is a label without text and keeps its index. -EINVAL (not UTF-8, a NUL
 * byte, no label at all), -EFBIG past the bounds above, the errno of open(2) and read(2), -ENOMEM; the
 * sentence names path and line. */
int convoy_label_list_read(const char *path, struct convoy_label_list *list, struct convoy_error *error);

/* Copies of count names. file: for the sentence of -ENOMEM. */
int convoy_label_list_of(const char *const *names, uint32_t count, const char *file,
                         struct convoy_label_list *list, struct convoy_error *error);

/* Frees and zeroes; an all-zero list is allowed. */
void convoy_label_list_free(struct convoy_label_list *list);

#endif
