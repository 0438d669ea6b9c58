/* The table of a model's values by name. */
#ifndef CONVOY_ENGINE_ONNX_NAMES_H
#define CONVOY_ENGINE_ONNX_NAMES_H

#include "engine/onnx/importer.h"

/* Makes room for so many names; call it once, before the two below. */
int onnx_names_reserve(struct onnx_importer *importer, size_t names);
/* NULL if there is no value of that name. */
struct onnx_value *onnx_find(const struct onnx_importer *importer, const char *name);
/* Adds a name, which must outlive the importer; NULL if it is there already. */
struct onnx_value *onnx_add_name(struct onnx_importer *importer, const char *name);
/* Whether name, which may be NULL, is in the list, which ends with NULL. */
bool onnx_is_listed(const char *name, const char *const *list);
/* Forgets the names that were added after there were `count` values; the values stay. */
void onnx_forget_names(struct onnx_importer *importer, int count);

#endif
