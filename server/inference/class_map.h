/* Class activation maps (engine/graph/class_map.h) on their way to the client: the picture of a map, and the
 * part of the client's picture that it covers. */
#ifndef CONVOY_SERVER_CLASS_MAP_H
#define CONVOY_SERVER_CLASS_MAP_H

#include "engine/base/error.h"
#include "server/image/coverage.h"
#include "server/inference/inference_request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pixels of the longer side of a map's picture, at most. */
#define CONVOY_CLASS_MAP_SIDE 256

struct convoy_class_map_picture {
    uint8_t *png; /* malloc'd, the caller's to free */
    size_t length;
    float low, high; /* what black and white stand for */
};

/* The map of a sample that was computed, as a grey picture: as large as the model's input, but no side longer
 * than CONVOY_CLASS_MAP_SIDE; between the map's values bilinear, as Pillow enlarges; black is the least
 * value, white the greatest. A map of equal values is black, and so is what is no number. -EPROTO: the worker
 * sent none that is the model's; -ENOMEM. Any thread. */
int convoy_class_map_draw(const struct convoy_inference_request *inference, uint32_t i,
                          struct convoy_class_map_picture *picture, struct convoy_error *error);

/* What that picture covers of the client's, whose bytes the request still has. False when its header cannot
 * be read. */
bool convoy_class_map_box(const struct convoy_inference_request *inference, uint32_t i,
                          struct convoy_image_box *box);

#endif
