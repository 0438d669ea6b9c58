#include "server/inference/tensor_text.h"

#include "engine/base/json_space.h"
#include "server/inference/base64.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_NUMBER 128 /* characters */
#define MOST_DIGITS    19  /* that fit 64 bits, whichever they are */

/* After so many elements, some 50 us, the thread yields the core: a scheduler may otherwise let a thread
 * compute for 3 ms before other threads that wake up. On two cores, 2,000 small requests a second and ten
 * tensors of 1 MB, p99 of the small ones fell from 4.0 to 2.0 ms; without tensors it is 0.7. */
#define TURN 2048

struct reader {
    char *at, *end;
    const struct convoy_tensor_shape *shape;
    uint64_t elements, read;            /* of the shape; so far */
    uint32_t depth, leaf_depth;         /* of arrays; that in which elements lie, 0 until the first */
    uint64_t count[CONVOY_TENSOR_RANK]; /* items of the array at each depth */
    struct convoy_error *error;
};

/* Reads the element at reader->at, which is no bracket, comma, space or end. */
typedef int read_element(struct reader *reader, void *context);

static void skip_space(struct reader *reader)
{
    reader->at += convoy_json_skip_space(reader->at, reader->end) - reader->at;
}

/* What sentences call the data. */
static const char *name(const struct reader *reader)
{
    return reader->shape->instances ? "instances" : "data";
}

static int malformed(struct reader *reader)
{
    return convoy_fail(reader->error, -EINVAL,
                       "%s is no JSON array behind element %" PRIu64 ": send [1, 2.5, ...]", name(reader),
                       reader->read);
}

int convoy_tensor_wrong_count(const struct convoy_tensor_shape *shape, struct convoy_error *error)
{
    uint64_t elements = convoy_tensor_elements(shape);

    if (shape->instances)
        return convoy_fail(error, -EINVAL,
                           "the %" PRIu64 " instances are not all of the model's shape, which makes %" PRIu64
                           " elements: nest all of them as the model's page says, or none",
                           shape->dims[0], elements);
    return convoy_fail(error, -EINVAL,
                       "data has other elements than shape says, which is %" PRIu64
                       ": send them flat, or nested as shape says",
                       elements);
}

static int wrong_count(struct reader *reader)
{
    return convoy_tensor_wrong_count(reader->shape, reader->error);
}

static int element(struct reader *reader, read_element *read, void *context)
{
    if (reader->leaf_depth == 0)
        reader->leaf_depth = reader->depth;
    /* Flat, or as deep as the shape: nothing between. */
    if (reader->depth != reader->leaf_depth || (reader->depth != 1 && reader->depth != reader->shape->rank) ||
        reader->read == reader->elements)
        return wrong_count(reader);
    int code = read(reader, context);
    reader->count[reader->depth - 1]++;
    if (++reader->read % TURN == 0)
        sched_yield();
    return code;
}

static int open_array(struct reader *reader)
{
    if (reader->depth == reader->shape->rank)
        return wrong_count(reader);
    if (reader->depth > 0)
        reader->count[reader->depth - 1]++;
    reader->count[reader->depth++] = 0;
    return 0;
}

static int close_array(struct reader *reader)
{
    uint64_t wanted = reader->leaf_depth == 1 ? reader->elements : reader->shape->dims[reader->depth - 1];
    if (reader->count[reader->depth - 1] != wanted)
        return wrong_count(reader);
    reader->depth--;
    return 0;
}

static int read_array(struct reader *reader, read_element *read, void *context)
{
    bool value_next = true; /* else a comma or the array's end */
    int code = 0;

    skip_space(reader);
    if (reader->at == reader->end || *reader->at != '[')
        return malformed(reader);
    do {
        char c = *reader->at;
        if (value_next && c == '[') {
            reader->at++;
            code = open_array(reader);
        } else if (!value_next && c == ',') {
            reader->at++;
            value_next = true;
        } else if (!value_next && c == ']') {
            reader->at++;
            code = close_array(reader);
        } else if (value_next && c != ']' && c != ',') {
            code = element(reader, read, context);
            value_next = false;
        } else {
            code = c == ']' && reader->read == 0 ? wrong_count(reader) : malformed(reader);
        }
        skip_space(reader);
    } while (code == 0 && reader->depth > 0 && reader->at < reader->end);
    if (code == 0 && (reader->depth > 0 || reader->at != reader->end))
        code = malformed(reader);
    return code;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits from *at on, behind those of *number; returns how many there were. Past MOST_DIGITS together the
 * number is another one. */
static size_t digits(const char **at, const char *end, uint64_t *number)
{
    const char *c = *at;
    uint64_t value = *number;
    for (; c < end && is_digit(*c); c++)
        value = value * 10 + (uint64_t)(*c - '0');
    size_t count = (size_t)(c - *at);
    *at = c;
    *number = value;
    return count;
}

static double with_strtod(const char *begun, size_t length)
{
    char text[LONGEST_NUMBER + 1];
    memcpy(text, begun, length);
    text[length] = '\0';
    return strtod(text, NULL); /* the daemon stays in the locale "C" */
}

/* JSON's grammar of a number (RFC 8259, 6). False where there is none. Up to 2^53 and for powers of ten up to
 * 22, which are exact, one multiplication or division rounds right (Clinger, How to Read Floating Point
 * Numbers Accurately, 1990); the rest is the C library's. */
static bool number(struct reader *reader, double *value)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *begun = reader->at, *at = begun, *end = reader->end;
    uint64_t mantissa = 0, written = 0;
    bool negative = *at == '-', down = false;
    int power = 0;

    at += negative;
    const char *whole = at;
    size_t count = digits(&at, end, &mantissa), fraction = 0;
    if (count == 0 || (count > 1 && *whole == '0'))
        return false;
    if (at < end && *at == '.') {
        at++;
        fraction = digits(&at, end, &mantissa);
        if (fraction == 0)
            return false;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            down = *at++ == '-';
        size_t length = digits(&at, end, &written);
        if (length == 0)
            return false;
        power = (length < 4 ? (int)written : 1000) * (down ? -1 : 1);
    }
    size_t length = (size_t)(at - begun);
    reader->at += length;
    if (length > LONGEST_NUMBER)
        return false;
    power -= (int)fraction;
    if (count + fraction > MOST_DIGITS || mantissa > UINT64_C(1) << 53 || power < -22 || power > 22)
        *value = with_strtod(begun, length);
    else if (power < 0)
        *value = (negative ? -1.0 : 1.0) * ((double)mantissa / tens[-power]);
    else
        *value = (negative ? -1.0 : 1.0) * ((double)mantissa * tens[power]);
    return true;
}

/* NaN, Inf and Infinity, with a minus or without, which JSON does not know and Triton takes, as Python's json
 * writes them. False where there is none. */
static bool word(struct reader *reader, double *value)
{
    static const char *const words[] = {"NaN", "Infinity", "Inf"};
    bool negative = *reader->at == '-';
    const char *at = reader->at + negative;

    if (at == reader->end || (*at != 'N' && *at != 'I'))
        return false;
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(reader->end - at) < length || memcmp(at, words[i], length) != 0)
            continue;
        reader->at += negative + length;
        *value = i == 0 ? (double)NAN : negative ? -(double)INFINITY : (double)INFINITY;
        return true;
    }
    return false;
}

struct numbers {
    enum convoy_datatype type;
    bool whole; /* integers from least to most */
    double least, most;
    float *floats;
    uint8_t *bytes;
};

static int read_number(struct reader *reader, void *context)
{
    const struct numbers *numbers = context;
    double value;
    bool is_word = word(reader, &value);

    if (!is_word && !number(reader, &value))
        return convoy_fail(reader->error, -EINVAL,
                           "%s[%" PRIu64 "] (counted flat) is no JSON number of at most %d characters",
                           name(reader), reader->read, LONGEST_NUMBER);
    if (numbers->whole &&
        (is_word || value < numbers->least || value > numbers->most || value != floor(value)))
        return convoy_fail(reader->error, -EINVAL, "%s[%" PRIu64 "] (counted flat) is no %s", name(reader),
                           reader->read, convoy_datatype_name(numbers->type));
    if (numbers->bytes != NULL) {
        numbers->bytes[reader->read] = (uint8_t)value;
        return 0;
    }
    float rounded = (float)value;
    if (!is_word && !isfinite(rounded))
        return convoy_fail(reader->error, -EINVAL, "%s[%" PRIu64 "] (counted flat) is too large for FP32",
                           name(reader), reader->read);
    numbers->floats[reader->read] = rounded;
    return 0;
}

uint64_t convoy_tensor_elements(const struct convoy_tensor_shape *shape)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < shape->rank; i++)
        if (__builtin_mul_overflow(elements, shape->dims[i], &elements))
            return UINT64_MAX;
    return elements;
}

int convoy_tensor_numbers(const char *text, size_t length, const struct convoy_tensor_shape *shape,
                          enum convoy_datatype type, void *values, struct convoy_error *error)
{
    struct reader reader = {.at = (char *)text,
                            .end = (char *)text + length,
                            .shape = shape,
                            .elements = convoy_tensor_elements(shape),
                            .error = error};
    struct numbers numbers = {.type = type};

    numbers.whole = convoy_datatype_range(type, &numbers.least, &numbers.most);
    if (type == CONVOY_UINT8)
        numbers.bytes = values;
    else
        numbers.floats = values;
    return read_array(&reader, read_number, &numbers);
}

/* {"b64": "..."}, and nothing else in it. */
static int read_instance(struct reader *reader, void *context)
{
    static const char key[] = "\"b64\"";
    struct convoy_part *part = (struct convoy_part *)context + reader->read;
    const char *const parts[] = {"{", key, ":"};
    int code = 0;

    for (int i = 0; i < 3 && code == 0; i++) {
        size_t length = strlen(parts[i]);
        skip_space(reader);
        if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, parts[i], length) != 0)
            code = -EPROTO;
        else
            reader->at += length;
    }
    skip_space(reader);
    if (code == 0)
        code = convoy_base64_string(&reader->at, reader->end, part);
    skip_space(reader);
    if (code == 0 && (reader->at == reader->end || *reader->at++ != '}'))
        code = -EPROTO;
    if (code == 0)
        return 0;
    return convoy_fail(reader->error, -EINVAL,
                       "instances[%" PRIu64 "] is no {\"b64\": \"...\"} with an image file in base64",
                       reader->read);
}

static int read_file(struct reader *reader, void *context)
{
    struct convoy_part *part = (struct convoy_part *)context + reader->read;

    switch (convoy_base64_string(&reader->at, reader->end, part)) {
    case 0:
        return 0;
    case -EPROTO:
        return convoy_fail(reader->error, -EINVAL,
                           "data[%" PRIu64 "] (counted flat) is no string: send each file as base64",
                           reader->read);
    case -EINVAL:
        return convoy_fail(reader->error, -EINVAL,
                           "data[%" PRIu64 "] (counted flat) is no base64: send each file as base64",
                           reader->read);
    default:
        return malformed(reader);
    }
}

int convoy_tensor_files(char *text, size_t length, const struct convoy_tensor_shape *shape,
                        struct convoy_part *parts, struct convoy_error *error)
{
    struct reader reader = {.at = text,
                            .end = text + length,
                            .shape = shape,
                            .elements = convoy_tensor_elements(shape),
                            .error = error};

    return read_array(&reader, shape->instances ? read_instance : read_file, parts);
}
