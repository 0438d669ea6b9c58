/* The file of keys, and the header with which a client gives one. */
#include "server/security/gate.h"
#include "server/security/key_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct convoy_key_table *table;
    struct convoy_error error;
    size_t length = 0;
    char *text = malloc(size + 1);

    if (text == NULL)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    const char *key = convoy_gate_bearer(text, &length);
    if (key != NULL && (key + length != text + strlen(text) || length == 0))
        abort();
    if (convoy_key_table_parse("keys", text, size, &table, &error) == 0) {
        if (convoy_key_table_count(table) > CONVOY_KEYS_MAX)
            abort();
        (void)convoy_key_table_find(table, text, size);
        convoy_key_table_free(table);
    }
    free(text);
    return 0;
}
