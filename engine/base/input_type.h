/* How a network declares its input: what its elements are, and in which order the axes of an image come.
 * Backends see neither: their input is float32 and N x C x H x W. */
#ifndef CONVOY_ENGINE_BASE_INPUT_TYPE_H
#define CONVOY_ENGINE_BASE_INPUT_TYPE_H

#include <string.h>

enum convoy_input_type { CONVOY_INPUT_FP32, CONVOY_INPUT_FP16, CONVOY_INPUT_UINT8 };
#define CONVOY_INPUT_TYPES (CONVOY_INPUT_UINT8 + 1)

/* AUTO: told by the file. */
enum convoy_image_axes { CONVOY_AXES_AUTO, CONVOY_AXES_NCHW, CONVOY_AXES_NHWC };
#define CONVOY_IMAGE_AXES (CONVOY_AXES_NHWC + 1)

/* As the Open Inference Protocol writes them. */
static inline const char *convoy_input_type_text(enum convoy_input_type type)
{
    static const char *const names[CONVOY_INPUT_TYPES] = {
        [CONVOY_INPUT_FP32] = "FP32", [CONVOY_INPUT_FP16] = "FP16", [CONVOY_INPUT_UINT8] = "UINT8"};
    return names[type];
}

/* As config.json and the workers' messages write them. */
static inline const char *convoy_image_axes_text(enum convoy_image_axes axes)
{
    static const char *const names[CONVOY_IMAGE_AXES] = {
        [CONVOY_AXES_AUTO] = "auto", [CONVOY_AXES_NCHW] = "nchw", [CONVOY_AXES_NHWC] = "nhwc"};
    return names[axes];
}

/* The value that is written so; -1 where there is none. name may be NULL. */
static inline int convoy_input_type_parse(const char *name)
{
    for (int i = 0; name != NULL && i < CONVOY_INPUT_TYPES; i++)
        if (strcmp(name, convoy_input_type_text((enum convoy_input_type)i)) == 0)
            return i;
    return -1;
}

static inline int convoy_image_axes_parse(const char *name)
{
    for (int i = 0; name != NULL && i < CONVOY_IMAGE_AXES; i++)
        if (strcmp(name, convoy_image_axes_text((enum convoy_image_axes)i)) == 0)
            return i;
    return -1;
}

#endif
