/* Values of the query string, checked. Any thread. */
#ifndef CONVOY_SERVER_QUERY_H
#define CONVOY_SERVER_QUERY_H

#include "engine/base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Reads value, of length bytes, as a decimal number from least to most: digits alone, no sign, no blanks.
 * value may be NULL ("?top" without '='). -EINVAL with a sentence that names name and the range; *number is
 * left alone. */
int convoy_query_number(const char *name, const char *value, size_t length, uint64_t least, uint64_t most,
                        uint64_t *number, struct convoy_error *error);

/* The same for a number with a fraction, as "0.25". */
int convoy_query_fraction(const char *name, const char *value, size_t length, double least, double most,
                          double *number, struct convoy_error *error);

#endif
