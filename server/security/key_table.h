/* The file of keys, and a key's entry in it.
 *
 * A line is NAME ROLE[,ROLE...] sha256:HEX, where HEX is the SHA-256 of the key; blanks separate, lines that
 * begin with # and empty ones are skipped. The file holds no key: who reads it cannot ask with it.
 *
 * Why a look-up may take a time that depends on what it finds: a key that is given is hashed first, and only
 * digests are compared. What time tells of is how far the digest of the client's own guess agrees with one of
 * the file, and a digest is of no use to a client: a key has 256 random bits (`convoy key`), so nothing finds
 * one for a given digest. The last comparison is in constant time all the same. */
#ifndef CONVOY_SERVER_KEY_TABLE_H
#define CONVOY_SERVER_KEY_TABLE_H

#include "engine/base/error.h"
#include "server/config/role.h"

#include <stddef.h>
#include <stdint.h>

#define CONVOY_KEY_DIGEST_BYTES 32
#define CONVOY_KEYS_MAX         1024
#define CONVOY_KEY_MAX_LENGTH   512 /* of what a client may send as a key */

struct convoy_key {
    char name[CONVOY_KEY_NAME_BYTES];
    unsigned roles; /* server/config/role.h: a set */
    uint8_t digest[CONVOY_KEY_DIGEST_BYTES];
};

struct convoy_key_table;

/* Reads text; file is for the sentences, which name the line and show nothing of it: a user may have
 * written the key itself there. *table is the caller's. -EINVAL, -ENOMEM. */
int convoy_key_table_parse(const char *file, const char *text, size_t length, struct convoy_key_table **table,
                           struct convoy_error *error);

/* The same for the file at path. Warns in the log where others may read it. Also -ENOENT and others of
 * open(2), -EFBIG. */
int convoy_key_table_load(const char *path, struct convoy_key_table **table, struct convoy_error *error);

void convoy_key_table_free(struct convoy_key_table *table); /* NULL is allowed */

uint32_t convoy_key_table_count(const struct convoy_key_table *table);

/* The entry of the key that a client gave, NULL where there is none. Some 150 ns. */
const struct convoy_key *convoy_key_table_find(const struct convoy_key_table *table, const char *key,
                                               size_t length);

#endif
