/* Reads a model file, and the files of external data beside it. Any thread. */
#ifndef CONVOY_ENGINE_ONNX_FILE_H
#define CONVOY_ENGINE_ONNX_FILE_H

#include "engine/base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Reads a regular file of 1 byte to 2 GiB - 1 into memory that the caller frees. (It is read, not mapped:
 * reading a mapped file that another process cuts short raises SIGBUS.) Returns 0, -ENOENT, -EINVAL, -EIO or
 * -ENOMEM with a sentence that names the file. */
int onnx_read_file(const char *path, uint8_t **data, size_t *size, struct convoy_error *error);

/* Reads `bytes` bytes from `offset` of the file `location`, a path relative to `folder`, into memory that the
 * caller frees (4-byte aligned; NULL for 0 bytes). Refuses absolute paths, "..", and links that lead out of
 * folder, with -EINVAL, and a file that is shorter than offset + bytes. The sentence names the location. */
int onnx_read_external(const char *folder, const char *location, uint64_t offset, uint64_t bytes, void **data,
                       struct convoy_error *error);

/* The folder that a path lies in, malloc'ed ("." where the path has none); NULL when memory is out. */
char *onnx_folder_of(const char *path);

#endif
