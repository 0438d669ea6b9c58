#include "server/security/key_table.h"

#include "engine/base/file.h"
#include "engine/base/log.h"

#include <errno.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LONGEST_LINE 256
#define LARGEST_FILE ((size_t)CONVOY_KEYS_MAX * LONGEST_LINE)
#define PLACES       (2 * CONVOY_KEYS_MAX) /* a power of two, of which half are free: a search ends */
#define BLANKS       " \t"

_Static_assert(CONVOY_KEY_DIGEST_BYTES == SHA256_DIGEST_SIZE, "a key is known by its SHA-256");

struct convoy_key_table {
    uint32_t count;
    uint16_t places[PLACES]; /* by digest, open addressing: an index into keys plus one; 0: free */
    struct convoy_key keys[CONVOY_KEYS_MAX];
};

/* Digests are spread evenly already. */
static uint32_t place_of(const uint8_t digest[CONVOY_KEY_DIGEST_BYTES])
{
    return (digest[0] | (uint32_t)digest[1] << 8) & (PLACES - 1);
}

/* Where the digest is, or the free place where it belongs. */
static uint16_t *find_place(struct convoy_key_table *table, const uint8_t digest[CONVOY_KEY_DIGEST_BYTES])
{
    uint32_t at = place_of(digest);
    while (table->places[at] != 0 &&
           !memeql_sec(table->keys[table->places[at] - 1].digest, digest, CONVOY_KEY_DIGEST_BYTES))
        at = (at + 1) & (PLACES - 1);
    return &table->places[at];
}

/* The next word of a line, [*at, *at + *length); false at the line's end. */
static bool next_word(const char **at, const char *end, size_t *length)
{
    while (*at < end && strchr(BLANKS, **at) != NULL && **at != '\0')
        (*at)++;
    const char *last = *at;
    while (last < end && (*last == '\0' || strchr(BLANKS, *last) == NULL))
        last++;
    *length = (size_t)(last - *at);
    return *length > 0;
}

static bool read_name(const char *word, size_t length, char name[CONVOY_KEY_NAME_BYTES])
{
    if (length >= CONVOY_KEY_NAME_BYTES)
        return false;
    memcpy(name, word, length);
    name[length] = '\0';
    return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

static bool read_roles(const char *word, size_t length, unsigned *roles)
{
    const char *end = word + length;
    *roles = 0;
    for (;;) {
        const char *comma = memchr(word, ',', (size_t)(end - word));
        enum convoy_role role;
        if (!convoy_role_parse(word, (size_t)((comma != NULL ? comma : end) - word), &role))
            return false;
        *roles |= CONVOY_ROLE_BIT(role);
        if (comma == NULL)
            return true;
        word = comma + 1;
    }
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_digest(const char *word, size_t length, uint8_t digest[CONVOY_KEY_DIGEST_BYTES])
{
    static const char kind[] = "sha256:";
    if (length != sizeof kind - 1 + 2 * (size_t)CONVOY_KEY_DIGEST_BYTES ||
        memcmp(word, kind, sizeof kind - 1) != 0)
        return false;
    word += sizeof kind - 1;
    for (size_t i = 0; i < CONVOY_KEY_DIGEST_BYTES; i++) {
        int high = digit_of(word[2 * i]), low = digit_of(word[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        digest[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

/* What is wrong with the line, or NULL; *filled: it has a key, which is now in *key. */
static const char *read_line(const char *line, const char *end, struct convoy_key *key, bool *filled)
{
    size_t length;
    *filled = false;
    if (end - line > LONGEST_LINE)
        return "the line is longer than 256 characters";
    if (!next_word(&line, end, &length) || *line == '#')
        return NULL;
    if (!read_name(line, length, key->name))
        return "a name is 1 to 64 letters, digits, '.', '_' or '-'";
    line += length;
    if (!next_word(&line, end, &length) || !read_roles(line, length, &key->roles))
        return "behind the name stand its roles, with commas between: infer, metrics, admin";
    line += length;
    if (!next_word(&line, end, &length) || !read_digest(line, length, key->digest))
        return "behind the roles stands sha256: and 64 hexadecimal digits, the SHA-256 of the key and not "
               "the "
               "key itself (`convoy key` prints such a line)";
    line += length;
    if (next_word(&line, end, &length))
        return "nothing may stand behind the digest";
    *filled = true;
    return NULL;
}

/* Takes the key in; what is wrong with it, or NULL. */
static const char *insert(struct convoy_key_table *table, const struct convoy_key *key)
{
    if (table->count == CONVOY_KEYS_MAX)
        return "there are more than 1024 keys";
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->keys[i].name, key->name) == 0)
            return "an earlier line has this name: give each key a name of its own";
    uint16_t *place = find_place(table, key->digest);
    if (*place != 0)
        return "an earlier line has this key: each needs one of its own";
    table->keys[table->count++] = *key;
    *place = (uint16_t)table->count;
    return NULL;
}

int convoy_key_table_parse(const char *file, const char *text, size_t length,
                           struct convoy_key_table **result, struct convoy_error *error)
{
    struct convoy_key_table *table = calloc(1, sizeof *table);
    const char *end = text + length;
    unsigned number = 1;

    if (table == NULL)
        return convoy_fail(error, -ENOMEM, "%s: out of memory for the keys", file);
    for (const char *line = text; line < end; number++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline != NULL ? newline : end;
        struct convoy_key key = {0};
        bool filled;
        const char *problem =
            read_line(line, line_end > line && line_end[-1] == '\r' ? line_end - 1 : line_end, &key, &filled);
        if (problem == NULL && filled)
            problem = insert(table, &key);
        if (problem != NULL) {
            convoy_key_table_free(table);
            return convoy_fail(error, -EINVAL, "%s, line %u: %s", file, number, problem);
        }
        line = newline != NULL ? newline + 1 : end;
    }
    *result = table;
    return 0;
}

int convoy_key_table_load(const char *path, struct convoy_key_table **table, struct convoy_error *error)
{
    struct stat status;
    size_t length;
    char *text;
    int code = convoy_file_read(path, LARGEST_FILE, &text, &length, error);

    if (code == -ENOENT)
        return convoy_fail(
            error, code,
            "auth.keys: there is no file %s: make it of the lines that `convoy key NAME ROLE` prints", path);
    if (code != 0)
        return convoy_fail_in(error, code, "auth.keys");
    if (stat(path, &status) == 0 && (status.st_mode & (S_IROTH | S_IWOTH)) != 0)
        convoy_log(CONVOY_LOG_WARNING, "the file of keys is open to every user of this machine: chmod o= it",
                   CONVOY_STR("file", path));
    code = convoy_key_table_parse(path, text, length, table, error);
    free(text);
    return code;
}

void convoy_key_table_free(struct convoy_key_table *table)
{
    free(table);
}

uint32_t convoy_key_table_count(const struct convoy_key_table *table)
{
    return table->count;
}

const struct convoy_key *convoy_key_table_find(const struct convoy_key_table *table, const char *key,
                                               size_t length)
{
    struct sha256_ctx hash;
    uint8_t digest[CONVOY_KEY_DIGEST_BYTES];

    if (length == 0 || length > CONVOY_KEY_MAX_LENGTH)
        return NULL;
    sha256_init(&hash);
    sha256_update(&hash, length, (const uint8_t *)key);
    sha256_digest(&hash, sizeof digest, digest);
    uint16_t place = *find_place((struct convoy_key_table *)table, digest);
    return place == 0 ? NULL : &table->keys[place - 1];
}
