/* The model's one input: its type, its shape, and which of its axes are channels, height and width. */
#ifndef CONVOY_ENGINE_ONNX_INPUT_H
#define CONVOY_ENGINE_ONNX_INPUT_H

#include "engine/onnx/importer.h"

/* Makes the graph's input of the file's, and adds its name. Sets importer->batch and what the graph says of
 * the input.
 *
 * Types: float32, float16 and uint8; the graph's input is float32. Axes of an input of four dimensions: as
 * the options force them; else as the nodes tell that read it (a Transpose from N x H x W x C, a convolution
 * of N x C x H x W); else N x H x W x C where the last dimension alone is a number of channels. Channels that
 * the file leaves open are those that the first convolution reads, else 3. The graph's input is N x C x H x
 * W. Of an input of N x H x W x C the file's nodes read a TRANSPOSE, which convoy_fold_transposes() takes out
 * again where the file transposes, too. */
int onnx_register_input(struct onnx_importer *importer, const Onnx__ValueInfoProto *info);

#endif
