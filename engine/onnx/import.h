/* From an unpacked model to a graph: the model's inputs, its nodes in order, its outputs. */
#ifndef CONVOY_ENGINE_ONNX_IMPORT_H
#define CONVOY_ENGINE_ONNX_IMPORT_H

#include "engine/onnx/importer.h"

/* Builds importer->graph from importer->model, as importer->options say. On failure the sentence lacks the
 * file's name. */
int onnx_import(struct onnx_importer *importer);

#endif
