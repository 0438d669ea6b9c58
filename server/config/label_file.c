#include "server/config/label_file.h"

#include "engine/base/file.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t line_number(const char *text, size_t offset)
{
    size_t line = 1;
    for (size_t i = 0; i < offset; i++)
        line += text[i] == '\n';
    return line;
}

int convoy_label_list_read(const char *path, struct convoy_label_list *list, struct convoy_error *error)
{
    char *bytes = NULL, *end;
    size_t length = 0, at = 0, count = 0;
    const char **labels = NULL;
    int result = convoy_file_read(path, CONVOY_LABELS_MAX_BYTES, &bytes, &length, error);
    if (result < 0)
        return result;
    if (!convoy_utf8_valid(bytes, length, &at)) {
        result = convoy_fail(error, -EINVAL, "%s: line %zu is not UTF-8", path, line_number(bytes, at));
        goto out;
    }
    end = memchr(bytes, '\0', length);
    if (end != NULL) {
        result = convoy_fail(error, -EINVAL, "%s: line %zu holds a NUL byte", path,
                             line_number(bytes, (size_t)(end - bytes)));
        goto out;
    }
    char *text = bytes;
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        length -= 3;
    }
    if (length > 0 && text[length - 1] == '\n')
        length--; /* the last line's end begins no further label */
    if (length == 0) {
        result = convoy_fail(error, -EINVAL, "%s: holds no label; write one a line, a class each", path);
        goto out;
    }
    count = line_number(text, length);
    if (count > CONVOY_LABELS_MAX) {
        result = convoy_fail(error, -EFBIG, "%s: has %zu lines, more than the %u that are read", path, count,
                             CONVOY_LABELS_MAX);
        goto out;
    }
    labels = malloc(count * sizeof(const char *));
    if (labels == NULL) {
        result = convoy_fail(error, -ENOMEM, "%s: out of memory for %zu labels", path, count);
        goto out;
    }
    char *line = text;
    for (size_t i = 0; i < count; i++) {
        char *next = i + 1 < count ? strchr(line, '\n') : text + length;
        char *stop = next;
        if (stop > line && stop[-1] == '\r')
            stop--;
        *stop = '\0';
        labels[i] = line;
        line = next + 1;
    }
    *list = (struct convoy_label_list){.count = (uint32_t)count, .labels = labels, .text = bytes};
    bytes = NULL;

out:
    free(bytes);
    return result;
}

int convoy_label_list_of(const char *const *names, uint32_t count, const char *file,
                         struct convoy_label_list *list, struct convoy_error *error)
{
    size_t bytes = 0;
    *list = (struct convoy_label_list){0};
    if (count == 0)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += strlen(names[i]) + 1;
    char *text = malloc(bytes), *end = text;
    const char **labels = malloc(count * sizeof *labels);
    if (text == NULL || labels == NULL) {
        free(text);
        free(labels);
        return convoy_fail(error, -ENOMEM, "%s: out of memory for %u labels", file, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        labels[i] = end;
        end = stpcpy(end, names[i]) + 1;
    }
    *list = (struct convoy_label_list){.count = count, .labels = labels, .text = text};
    return 0;
}

void convoy_label_list_free(struct convoy_label_list *list)
{
    free(list->labels);
    free(list->text);
    free(list->name);
    *list = (struct convoy_label_list){0};
}
