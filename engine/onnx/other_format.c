#include "engine/onnx/other_format.h"

#include <string.h>

#define EXPORT_PYTORCH "export the network with torch.onnx.export(), or with models/from_pytorch.py"

struct format {
    size_t offset;
    const char *bytes;
    size_t count;
    const char *what;
};

/* The magic numbers of each format's own description. */
static const struct format formats[] = {
    {0, "version https://git-lfs", 23, "a pointer of Git LFS: `git lfs pull` fetches the file itself"},
    {0, "PK\003\004", 4, "a zip archive, as PyTorch's torch.save() writes: " EXPORT_PYTORCH},
    {0, "\x80\x02", 2, "a Python pickle, as older PyTorch writes: " EXPORT_PYTORCH},
    {0, "\x89HDF\r\n\x1a\n", 8, "an HDF5 file, as Keras writes: convert it with tf2onnx"},
    {4, "TFL3", 4, "a TensorFlow Lite model: convert it with tf2onnx"},
    {4, "ORTM", 4, "a model in ONNX Runtime's own format: the .onnx file that it was made of is needed"},
    {0, "\x1f\x8b", 2, "packed with gzip: unpack it"},
    {8, "{\"", 2, "a safetensors file, weights without a network: " EXPORT_PYTORCH},
};

/* An HTML page, which a download wrote in place of the file, begins with space or a tag. */
static int is_page(const uint8_t *data, size_t size)
{
    size_t at = 0;
    while (at < size && at < 64 && (data[at] == ' ' || (data[at] >= '\t' && data[at] <= '\r')))
        at++;
    return at + 1 < size && data[at] == '<' &&
           (data[at + 1] == '!' || data[at + 1] == 'h' || data[at + 1] == 'H' || data[at + 1] == '?');
}

const char *onnx_other_format(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const struct format *format = &formats[i];
        if (size >= format->offset + format->count &&
            memcmp(data + format->offset, format->bytes, format->count) == 0)
            return format->what;
    }
    if (is_page(data, size))
        return "an HTML or XML page, not the file that it was to be: download it again";
    return NULL;
}
