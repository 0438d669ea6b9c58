#include "server/http/query.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>

/* False when it is no number or does not fit. */
static bool parse(const char *value, size_t length, uint64_t *number)
{
    *number = 0;
    if (value == NULL || length == 0)
        return false;
    for (size_t i = 0; i < length; i++) {
        unsigned digit = (unsigned char)value[i] - (unsigned)'0';
        if (digit > 9 || *number > (UINT64_MAX - digit) / 10)
            return false;
        *number = *number * 10 + digit;
    }
    return true;
}

int convoy_query_number(const char *name, const char *value, size_t length, uint64_t least, uint64_t most,
                        uint64_t *number, struct convoy_error *error)
{
    uint64_t parsed;

    if (!parse(value, length, &parsed) || parsed < least || parsed > most) {
        /* Enough of the value to recognise it; the rest may be long. */
        int shown = value == NULL ? 0 : length > 32 ? 32 : (int)length;
        return convoy_fail(error, -EINVAL,
                           "query parameter %s must be a whole number from %" PRIu64 " to %" PRIu64
                           ", not \"%.*s\"",
                           name, least, most, shown, value == NULL ? "" : value);
    }
    *number = parsed;
    return 0;
}

/* Digits, with at most one point among them; no sign, exponent or blank. */
static bool parse_fraction(const char *value, size_t length, double *number)
{
    double unit = 1.0;
    bool point = false, digits = false;

    *number = 0;
    for (size_t i = 0; value != NULL && i < length; i++) {
        unsigned digit = (unsigned char)value[i] - (unsigned)'0';
        if (value[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (digit > 9)
            return false;
        digits = true;
        unit = point ? unit / 10 : unit;
        *number = point ? *number + unit * digit : *number * 10 + digit;
    }
    return digits;
}

int convoy_query_fraction(const char *name, const char *value, size_t length, double least, double most,
                          double *number, struct convoy_error *error)
{
    double parsed;

    if (!parse_fraction(value, length, &parsed) || parsed < least || parsed > most) {
        int shown = value == NULL ? 0 : length > 32 ? 32 : (int)length;
        return convoy_fail(error, -EINVAL, "query parameter %s must be a number from %g to %g, not \"%.*s\"",
                           name, least, most, shown, value == NULL ? "" : value);
    }
    *number = parsed;
    return 0;
}
