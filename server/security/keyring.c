#include "server/security/keyring.h"

#include "engine/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct convoy_keyring {
    char *path;
    /* Held for reading while a key is looked up, some 150 ns; for writing while a pointer is replaced. */
    pthread_rwlock_t lock;
    struct convoy_key_table *table;
};

int convoy_keyring_new(const char *path, struct convoy_keyring **result, struct convoy_error *error)
{
    struct convoy_keyring *keyring = calloc(1, sizeof *keyring);
    int code = 0;

    if (keyring != NULL)
        keyring->path = strdup(path);
    if (keyring == NULL || keyring->path == NULL)
        code = convoy_fail(error, -ENOMEM, "%s: out of memory for the keys", path);
    else
        code = convoy_key_table_load(path, &keyring->table, error);
    if (code != 0) {
        if (keyring != NULL)
            free(keyring->path);
        free(keyring);
        return code;
    }
    pthread_rwlock_init(&keyring->lock, NULL);
    *result = keyring;
    return 0;
}

void convoy_keyring_free(struct convoy_keyring *keyring)
{
    if (keyring == NULL)
        return;
    pthread_rwlock_destroy(&keyring->lock);
    convoy_key_table_free(keyring->table);
    free(keyring->path);
    free(keyring);
}

void convoy_keyring_reload(struct convoy_keyring *keyring)
{
    struct convoy_key_table *fresh, *old;
    struct convoy_error error;

    if (keyring == NULL)
        return;
    if (convoy_key_table_load(keyring->path, &fresh, &error) != 0) {
        convoy_log(CONVOY_LOG_ERROR, "the keys are not taken over: those read before stay",
                   CONVOY_STR("reason", error.message));
        return;
    }
    pthread_rwlock_wrlock(&keyring->lock);
    old = keyring->table;
    keyring->table = fresh;
    pthread_rwlock_unlock(&keyring->lock);
    convoy_key_table_free(old);
    convoy_log(CONVOY_LOG_INFO, "keys read again", CONVOY_UINT("keys", convoy_key_table_count(fresh)),
               CONVOY_STR("file", keyring->path));
}

bool convoy_keyring_find(struct convoy_keyring *keyring, const char *key, size_t length,
                         struct convoy_key *entry)
{
    pthread_rwlock_rdlock(&keyring->lock);
    const struct convoy_key *found = convoy_key_table_find(keyring->table, key, length);
    if (found != NULL)
        *entry = *found;
    pthread_rwlock_unlock(&keyring->lock);
    return found != NULL;
}
