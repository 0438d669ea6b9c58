#include "client/stats/exposition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"

/* What the reading grows; labels are found by their index until it is done, because they move. */
struct exposition_reading {
    struct client_sample *samples;
    size_t sample_count, sample_capacity;
    struct client_label *labels;
    size_t label_count, label_capacity;
};

static void *grow(void *list, size_t *capacity, size_t size)
{
    size_t wanted = *capacity * 2 + 256;
    void *grown = realloc(list, wanted * size);
    if (grown)
        *capacity = wanted;
    return grown;
}

static bool name_begins(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
}

/* Returns the byte after the name that begins at text; text itself when there is no name. */
static char *after_name(char *text)
{
    if (name_begins(*text))
        while (name_begins(*text) || (*text >= '0' && *text <= '9'))
            text++;
    return text;
}

static char *after_blanks(char *text)
{
    while (*text == ' ' || *text == '\t')
        text++;
    return text;
}

/* Takes the escapes out of the quoted text that begins at from, in place, and ends it; gives what follows the
 * closing quote, or NULL when there is none. */
static char *unquote(char *from)
{
    char *to = from;
    for (; *from != '"'; from++) {
        if (*from == '\0')
            return NULL;
        if (*from == '\\') {
            from++;
            if (*from != '\\' && *from != '"' && *from != 'n')
                return NULL;
            *to++ = *from == 'n' ? '\n' : *from;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
    return from + 1;
}

/* Reads NAME="VALUE",...} from text: 1 with *end behind the brace, 0 when it is not that, -ENOMEM. */
static int read_labels(char *text, struct exposition_reading *reading, char **end)
{
    for (text = after_blanks(text); *text != '}';) {
        char *name = text, *name_end = after_name(text), *equals = after_blanks(name_end);
        if (name_end == name || *equals != '=')
            return 0;
        text = after_blanks(equals + 1);
        if (*text != '"')
            return 0;
        char *value = text + 1;
        text = unquote(value);
        if (!text)
            return 0;
        *name_end = '\0';
        if (reading->label_count == reading->label_capacity) {
            void *grown = grow(reading->labels, &reading->label_capacity, sizeof *reading->labels);
            if (!grown)
                return -ENOMEM;
            reading->labels = grown;
        }
        reading->labels[reading->label_count++] = (struct client_label){name, value};
        text = after_blanks(text);
        if (*text == ',')
            text = after_blanks(text + 1);
        else if (*text != '}')
            return 0;
    }
    *end = text + 1;
    return 1;
}

/* Reads a number and an optional timestamp, which is ignored. */
static bool read_value(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    if (end == text || (*end && *end != ' ' && *end != '\t'))
        return false;
    end = after_blanks(end);
    if (*end) {
        char *stamp = end;
        (void)strtoll(stamp, &end, 10);
        if (end == stamp)
            return false;
    }
    return *after_blanks(end) == '\0';
}

/* Reads a line that is neither a comment nor empty. Returns 1, 0 when it is not a sample, -ENOMEM. */
static int read_sample(char *line, struct exposition_reading *reading)
{
    char *name = line, *end = after_name(name), *rest = after_blanks(end);
    size_t first_label = reading->label_count;
    double value;
    int status = 1;
    if (end == name)
        return 0;
    if (*rest == '{')
        status = read_labels(rest + 1, reading, &rest);
    else if (rest == end)
        status = 0;
    if (status == 1 && !read_value(after_blanks(rest), &value))
        status = 0;
    if (status != 1) {
        reading->label_count = first_label;
        return status;
    }
    *end = '\0';
    if (reading->sample_count == reading->sample_capacity) {
        void *grown = grow(reading->samples, &reading->sample_capacity, sizeof *reading->samples);
        if (!grown)
            return -ENOMEM;
        reading->samples = grown;
    }
    reading->samples[reading->sample_count++] = (struct client_sample){
        .name = name, .value = value, .label_count = reading->label_count - first_label};
    return 1;
}

static int read_lines(char *text, size_t size, struct exposition_reading *reading, size_t *skipped,
                      struct convoy_failure *failure)
{
    char *end = text + size;
    for (char *line = text; line < end;) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        if (!newline) {
            (*skipped)++;
            return 0;
        }
        *newline = '\0';
        bool whole = strlen(line) == (size_t)(newline - line); /* a line with a NUL is not text */
        if (newline > line && newline[-1] == '\r')
            newline[-1] = '\0';
        char *first = after_blanks(line);
        int status = !whole ? 0 : *first == '#' || *first == '\0' ? 1 : read_sample(first, reading);
        if (status < 0)
            return client_fail_with(failure, status, "memory is out");
        *skipped += status == 0;
        if (reading->sample_count > CLIENT_EXPOSITION_SAMPLES)
            return client_fail_with(failure, -EPROTO, "/metrics has more than %d samples: is the URL right?",
                                    CLIENT_EXPOSITION_SAMPLES);
        line = newline + 1;
    }
    return 0;
}

int client_exposition_read(const char *text, size_t size, struct client_exposition *exposition,
                           struct convoy_failure *failure)
{
    struct exposition_reading reading = {0};
    memset(exposition, 0, sizeof *exposition);
    if (size > CLIENT_EXPOSITION_BYTES)
        return client_fail_with(failure, -EPROTO, "/metrics has more than %zu MiB: is the URL right?",
                                CLIENT_EXPOSITION_BYTES >> 20);
    exposition->own_text = malloc(size + 1);
    if (!exposition->own_text)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    memcpy(exposition->own_text, text, size);
    exposition->own_text[size] = '\0';
    int status = read_lines(exposition->own_text, size, &reading, &exposition->skipped, failure);
    exposition->samples = reading.samples;
    exposition->count = reading.sample_count;
    exposition->own_labels = reading.labels;
    size_t label = 0;
    for (size_t i = 0; i < reading.sample_count; i++) {
        reading.samples[i].labels = reading.samples[i].label_count ? reading.labels + label : NULL;
        label += reading.samples[i].label_count;
    }
    return status;
}

const char *client_sample_label(const struct client_sample *sample, const char *name)
{
    for (size_t i = 0; i < sample->label_count; i++)
        if (strcmp(sample->labels[i].name, name) == 0)
            return sample->labels[i].value;
    return "";
}

void client_exposition_clear(struct client_exposition *exposition)
{
    free(exposition->samples);
    free(exposition->own_labels);
    free(exposition->own_text);
    memset(exposition, 0, sizeof *exposition);
}
