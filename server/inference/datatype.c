#include "server/inference/datatype.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
    double least, most; /* both 0: no integers */
} types[] = {
    [CONVOY_FP32] = {"FP32", 4, 0, 0},
    [CONVOY_FP16] = {"FP16", 2, 0, 0},
    [CONVOY_BF16] = {"BF16", 2, 0, 0},
    [CONVOY_INT8] = {"INT8", 1, INT8_MIN, INT8_MAX},
    [CONVOY_INT16] = {"INT16", 2, INT16_MIN, INT16_MAX},
    [CONVOY_UINT16] = {"UINT16", 2, 0, UINT16_MAX},
    [CONVOY_UINT8] = {"UINT8", 1, 0, UINT8_MAX},
    [CONVOY_BYTES] = {"BYTES", 0, 0, 0},
};

int convoy_datatype_parse(const char *name, enum convoy_datatype *type, struct convoy_error *error)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(name, types[i].name) == 0) {
            *type = (enum convoy_datatype)i;
            return 0;
        }
    }
    return convoy_fail(error, -EINVAL,
                       "datatype %.20s is not taken: send FP32, FP16, BF16, INT8, INT16 or UINT16, UINT8 for "
                       "pixels, or BYTES for image files",
                       name);
}

enum convoy_datatype convoy_datatype_of(enum convoy_input_type type)
{
    static const enum convoy_datatype same[CONVOY_INPUT_TYPES] = {[CONVOY_INPUT_FP32] = CONVOY_FP32,
                                                                  [CONVOY_INPUT_FP16] = CONVOY_FP16,
                                                                  [CONVOY_INPUT_UINT8] = CONVOY_UINT8};
    return same[type];
}

const char *convoy_datatype_name(enum convoy_datatype type)
{
    return types[type].name;
}

size_t convoy_datatype_bytes(enum convoy_datatype type)
{
    return types[type].bytes;
}

bool convoy_datatype_range(enum convoy_datatype type, double *least, double *most)
{
    *least = types[type].least;
    *most = types[type].most;
    return *most > 0;
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 binary16: a sign, 5 bits of exponent with a bias of 15, 10 of fraction. */
static float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;

    if (exponent == 0) { /* a multiple of 2^-24: exact in float32 */
        float value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    if (exponent == 0x1f)
        return from_bits(sign | 0x7f800000 | fraction << 13);
    return from_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

void convoy_datatype_to_float(enum convoy_datatype type, const void *bytes, size_t count, float *values)
{
    const uint8_t *at = bytes;
    size_t size = types[type].bytes;

    if (type == CONVOY_FP32) {
        memcpy(values, bytes, count * sizeof *values);
        return;
    }
    for (size_t i = 0; i < count; i++, at += size) {
        uint16_t bits = size == 2 ? (uint16_t)(at[0] | at[1] << 8) : at[0];
        switch (type) {
        case CONVOY_FP16:
            values[i] = half_to_float(bits);
            break;
        case CONVOY_BF16: /* the upper half of a float32 */
            values[i] = from_bits((uint32_t)bits << 16);
            break;
        case CONVOY_INT8:
            values[i] = (int8_t)bits;
            break;
        case CONVOY_INT16:
            values[i] = (int16_t)bits;
            break;
        default:
            values[i] = bits;
            break;
        }
    }
}
