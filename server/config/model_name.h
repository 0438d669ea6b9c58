/* What a model and its versions may be called. A request's names are checked with these functions before they
 * are looked up, and those of the configuration when it is read. Pure functions: any thread. */
#ifndef CONVOY_SERVER_MODEL_NAME_H
#define CONVOY_SERVER_MODEL_NAME_H

#include <stdbool.h>

#define CONVOY_MODEL_NAME_BYTES 128 /* of the longest name, without its NUL */

/* A name is 1 to CONVOY_MODEL_NAME_BYTES of [A-Za-z0-9._-] and does not begin with '.'. */
bool convoy_model_name_valid(const char *text);

/* A version is a whole number from 1 to 999999999, without leading zeros. */
bool convoy_model_version_valid(const char *text);

#endif
