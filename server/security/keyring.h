/* The keys that the daemon accepts, which SIGHUP replaces while requests use them. */
#ifndef CONVOY_SERVER_KEYRING_H
#define CONVOY_SERVER_KEYRING_H

#include "engine/base/error.h"
#include "server/security/key_table.h"

#include <stdbool.h>

struct convoy_keyring;

/* Reads the file at path, which is copied. Errors: those of convoy_key_table_load(). */
int convoy_keyring_new(const char *path, struct convoy_keyring **keyring, struct convoy_error *error);
void convoy_keyring_free(struct convoy_keyring *keyring); /* NULL is allowed */

/* Reads the file again, and logs what came of it: where something is wrong the keys stay as they were. NULL
 * is allowed. One thread at a time; it may block as long as a file system takes. */
void convoy_keyring_reload(struct convoy_keyring *keyring);

/* Copies the entry of the key that a client gave; false where there is none. Any thread. */
bool convoy_keyring_find(struct convoy_keyring *keyring, const char *key, size_t length,
                         struct convoy_key *entry);

#endif
