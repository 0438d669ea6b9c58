/* Edits of fields for fuzzers of protobuf files: bytes that are changed at random mostly break a length, and
 * the reader sees no more than that. Here a field at some depth is changed, and the lengths around it are
 * made right again. */
#ifndef CONVOY_TESTS_FUZZ_PROTOBUF_FIELDS_H
#define CONVOY_TESTS_FUZZ_PROTOBUF_FIELDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS_DEPTH 16
#define FIELDS_MOST  512 /* of one message that can be chosen */

struct field {
    size_t begin, body, end; /* of the tag, of the value, behind the value */
    unsigned wire;           /* 0: number, 1: 8 bytes, 2: length and bytes, 5: 4 bytes */
};

/* A length that has to be made right when what it counts is another. */
struct field_length {
    size_t at, bytes; /* where it stands */
    size_t value;
};

static bool read_varint(const uint8_t *data, size_t *at, size_t end, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = data[(*at)++];
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static size_t write_varint(uint8_t *data, uint64_t value)
{
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        data[count++] = (uint8_t)(value | 0x80);
    data[count++] = (uint8_t)value;
    return count;
}

/* The fields between at and end; 0 when these bytes are no message. */
static uint32_t list_fields(const uint8_t *data, size_t at, size_t end, struct field fields[FIELDS_MOST])
{
    uint32_t count = 0;
    while (at < end && count < FIELDS_MOST) {
        struct field *field = &fields[count++];
        uint64_t tag, value;
        field->begin = at;
        if (!read_varint(data, &at, end, &tag) || tag >> 3 == 0 || tag >> 3 > 100)
            return 0;
        field->wire = (unsigned)(tag & 7);
        field->body = at;
        if (field->wire == 0) {
            if (!read_varint(data, &at, end, &value))
                return 0;
        } else if (field->wire == 2) {
            if (!read_varint(data, &at, end, &value) || value > end - at)
                return 0;
            field->body = at;
            at += value;
        } else if ((field->wire == 1 || field->wire == 5) && end - at >= (field->wire == 1 ? 8 : 4)) {
            at += field->wire == 1 ? 8 : 4;
        } else {
            return 0;
        }
        field->end = at;
    }
    return count;
}

/* Replaces the bytes between begin and end by count others, and makes the lengths around them right, the
 * innermost of which is the last. Returns the new size, or size when there is no room. */
static size_t replace_bytes(uint8_t *data, size_t size, size_t most, size_t begin, size_t end,
                            const uint8_t *with, size_t count, const struct field_length *around,
                            uint32_t depth)
{
    /* Each length may take some bytes more. */
    if (size - (end - begin) + count + (size_t)depth * 10 > most)
        return size;
    memmove(data + begin + count, data + end, size - end);
    memcpy(data + begin, with, count);
    size += count - (end - begin);
    int64_t more = (int64_t)count - (int64_t)(end - begin);
    while (depth-- > 0) {
        uint8_t length[10];
        size_t bytes = write_varint(length, around[depth].value + (uint64_t)more), at = around[depth].at;
        memmove(data + at + bytes, data + at + around[depth].bytes, size - at - around[depth].bytes);
        memcpy(data + at, length, bytes);
        size += bytes - around[depth].bytes;
        more += (int64_t)bytes - (int64_t)around[depth].bytes;
    }
    return size;
}

/* Changes one field of the message in data: its number, its bytes (by `bytes`, libFuzzer's own mutations), or
 * how often it stands there. Returns the new size. */
static size_t edit_field(uint8_t *data, size_t size, size_t most, unsigned seed,
                         size_t (*bytes)(uint8_t *data, size_t size, size_t most))
{
    static const uint64_t numbers[] = {
        0,   1,   2,     3,        4,          7,          8,         16,         17,         127,
        224, 255, 65535, 1u << 31, UINT32_MAX, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 1};
    static struct field fields[FIELDS_MOST];
    struct field_length around[FIELDS_DEPTH];
    static uint8_t other[1 << 16];
    size_t at = 0, end = size;
    uint32_t depth = 0, count = list_fields(data, at, end, fields);
    if (count == 0)
        return bytes(data, size, most);
    struct field field;
    for (;;) {
        field = fields[(uint32_t)rand_r(&seed) % count];
        if (field.wire != 2 || depth == FIELDS_DEPTH || rand_r(&seed) % 5 == 0 ||
            (count = list_fields(data, field.body, field.end, fields)) == 0)
            break;
        size_t length = field.end - field.body, written = write_varint(other, length);
        around[depth++] = (struct field_length){field.body - written, written, length};
    }
    size_t whole = field.end - field.begin, length = field.end - field.body;
    int kind = rand_r(&seed) % 6;
    if (whole > sizeof other / 2)
        return bytes(data, size, most);
    if (kind == 0) /* it stands there twice */
        return replace_bytes(data, size, most, field.end, field.end, memcpy(other, data + field.begin, whole),
                             whole, around, depth);
    if (kind == 1) /* or not at all */
        return replace_bytes(data, size, most, field.begin, field.end, other, 0, around, depth);
    if (field.wire == 0) {
        uint64_t value;
        size_t from = field.body;
        (void)read_varint(data, &from, field.end, &value);
        value = kind == 2   ? value + 1
                : kind == 3 ? value - 1
                            : numbers[(size_t)rand_r(&seed) % (sizeof numbers / sizeof numbers[0])];
        size_t written = write_varint(other, value);
        return replace_bytes(data, size, most, field.body, field.end, other, written, around, depth);
    }
    memcpy(other, data + field.body, length);
    if (field.wire != 2) {
        other[(size_t)rand_r(&seed) % length] ^= (uint8_t)(1u << rand_r(&seed) % 8);
        return replace_bytes(data, size, most, field.body, field.end, other, length, around, depth);
    }
    if (depth == FIELDS_DEPTH)
        return bytes(data, size, most);
    size_t written = write_varint(other + sizeof other / 2, length); /* its own length is the innermost */
    around[depth] = (struct field_length){field.body - written, written, length};
    length = bytes(other, length, sizeof other / 2);
    return replace_bytes(data, size, most, field.body, field.end, other, length, around, depth + 1);
}

#endif
