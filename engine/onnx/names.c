#include "engine/onnx/names.h"

#include "engine/base/hash.h"
#include "engine/onnx/fail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int onnx_names_reserve(struct onnx_importer *importer, size_t names)
{
    size_t slots = 16;
    while (slots < 2 * names)
        slots *= 2;
    importer->values = calloc(names + 1, sizeof *importer->values);
    importer->slots = malloc(slots * sizeof *importer->slots);
    if (importer->values == NULL || importer->slots == NULL)
        return onnx_out_of_memory(importer);
    memset(importer->slots, 0xFF, slots * sizeof *importer->slots);
    importer->slot_count = (uint32_t)slots;
    importer->hash_seed = convoy_hash_seed();
    importer->value_capacity = (int)names;
    return 0;
}

/* The slot that holds the name, or the free one where it would go. */
static int *slot_of(const struct onnx_importer *importer, const char *name)
{
    uint32_t mask = importer->slot_count - 1;
    uint32_t at = (uint32_t)convoy_hash(importer->hash_seed, name, strlen(name)) & mask;
    while (importer->slots[at] >= 0 && strcmp(importer->values[importer->slots[at]].name, name) != 0)
        at = (at + 1) & mask;
    return &importer->slots[at];
}

struct onnx_value *onnx_find(const struct onnx_importer *importer, const char *name)
{
    int index = name[0] != '\0' ? *slot_of(importer, name) : -1;
    return index < 0 ? NULL : &importer->values[index];
}

struct onnx_value *onnx_add_name(struct onnx_importer *importer, const char *name)
{
    int *slot = slot_of(importer, name);
    if (*slot >= 0 || importer->value_count == importer->value_capacity)
        return NULL;
    *slot = importer->value_count++;
    struct onnx_value *value = &importer->values[*slot];
    value->name = name;
    value->node = -1;
    value->tensor = -1;
    value->outer = 1;
    value->scope = importer->scope;
    return value;
}

bool onnx_is_listed(const char *name, const char *const *list)
{
    for (; name != NULL && *list != NULL; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* The slots stay taken, so that names behind them are still found: nothing is called "". */
void onnx_forget_names(struct onnx_importer *importer, int count)
{
    for (int i = count; i < importer->value_count; i++)
        importer->values[i].name = "";
}
