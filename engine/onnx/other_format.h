/* Files that are no ONNX models and lie where one belongs. */
#ifndef CONVOY_ENGINE_ONNX_OTHER_FORMAT_H
#define CONVOY_ENGINE_ONNX_OTHER_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* What the file of these bytes is and what to do, as the end of a sentence ("an HTML page: ..."), where its
 * first bytes tell; else NULL. No ONNX file that an exporter writes begins as one of them. Any thread. */
const char *onnx_other_format(const uint8_t *data, size_t size);

#endif
