#include "server/config/hub_preprocessor.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define SIDE_MAX 65535

/* How the classes differ in what they do with "size". */
enum rule {
    PLAIN,    /* the shorter edge, or both sides, become so long */
    PART,     /* the shorter edge becomes size / crop_pct */
    CONVNEXT, /* so do those below 384, of which a square of size is cut; larger ones are stretched */
    LEVIT     /* the shorter edge becomes 256 / 224 of size */
};

/* "resample" is a number of Pillow's. */
enum pillow { NEAREST = 0, LANCZOS = 1, BILINEAR = 2, BICUBIC = 3 };

struct processor {
    const char *name; /* of the class, without ImageProcessor or FeatureExtractor behind it */
    bool square;      /* a number as size is both sides */
    bool crops;       /* without do_center_crop */
    bool flips;       /* without do_flip_channel_order: B, G, R */
    bool twice;       /* without include_top: std divides twice */
    enum rule rule;
    uint32_t resample;         /* without the key */
    enum convoy_preset values; /* mean and std without the keys; NONE: it never normalises */
};

static const struct processor processors[] = {
    {"ViT", .square = true, .resample = BILINEAR, .values = CONVOY_PRESET_INCEPTION},
    {"DeiT", .square = true, .crops = true, .resample = BICUBIC, .values = CONVOY_PRESET_INCEPTION},
    {"Beit", .square = true, .resample = BICUBIC, .values = CONVOY_PRESET_INCEPTION},
    {"ConvNext", .rule = CONVNEXT, .resample = BICUBIC, .values = CONVOY_PRESET_INCEPTION},
    {"CLIP", .crops = true, .resample = BICUBIC, .values = CONVOY_PRESET_CLIP},
    {"Bit", .crops = true, .resample = BICUBIC, .values = CONVOY_PRESET_CLIP},
    {"ViTHybrid", .crops = true, .resample = BICUBIC, .values = CONVOY_PRESET_CLIP},
    {"Levit", .crops = true, .rule = LEVIT, .resample = BICUBIC, .values = CONVOY_PRESET_IMAGENET},
    {"MobileNetV1", .crops = true, .resample = BILINEAR, .values = CONVOY_PRESET_INCEPTION},
    {"MobileNetV2", .crops = true, .resample = BILINEAR, .values = CONVOY_PRESET_INCEPTION},
    {"MobileViT", .crops = true, .flips = true, .resample = BILINEAR, .values = CONVOY_PRESET_NONE},
    {"PoolFormer", .crops = true, .rule = PART, .resample = BICUBIC, .values = CONVOY_PRESET_IMAGENET},
    {"Pvt", .square = true, .resample = BILINEAR, .values = CONVOY_PRESET_IMAGENET},
    {"Segformer", .square = true, .resample = BILINEAR, .values = CONVOY_PRESET_IMAGENET},
    {"Siglip", .square = true, .resample = BICUBIC, .values = CONVOY_PRESET_INCEPTION},
    {"EfficientNet", .square = true, .twice = true, .resample = NEAREST, .values = CONVOY_PRESET_INCEPTION},
};

/* Sides: 0 where there is none. Either height and width are given or the shorter edge is. */
struct size {
    uint32_t height, width, shortest;
};

/* The class of the file, by the name that it gives; NULL: one that is not known. */
static const struct processor *find(const char *type)
{
    static const char *const ends[] = {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil",
                                       "FeatureExtractor", NULL};
    for (size_t i = 0; i < sizeof processors / sizeof *processors; i++) {
        size_t length = strlen(processors[i].name);
        for (const char *const *end = ends; *end != NULL; end++)
            if (strncmp(type, processors[i].name, length) == 0 && strcmp(type + length, *end) == 0)
                return &processors[i];
    }
    return NULL;
}

static int find_processor(const struct convoy_json *root, const struct processor **processor,
                          struct convoy_error *error)
{
    const char *type = "ViTImageProcessor"; /* the oldest files name none */
    int result = 0;
    if (convoy_json_has(root, "image_processor_type"))
        result = convoy_json_string(root, "image_processor_type", &type, error);
    else if (convoy_json_has(root, "feature_extractor_type"))
        result = convoy_json_string(root, "feature_extractor_type", &type, error);
    if (result < 0)
        return result;
    *processor = find(type);
    return *processor != NULL
               ? 0
               : convoy_fail(error, -ENOTSUP, "%s: the image processor %.80s is not known here", root->file,
                             type);
}

/* A member that may be null, which is as if it were not there. */
static int read_bool(const struct convoy_json *root, const char *key, bool *value, struct convoy_error *error)
{
    return convoy_json_has(root, key) ? convoy_json_bool(root, key, value, error) : 0;
}

static int read_double(const struct convoy_json *root, const char *key, double least, double most,
                       double *value, struct convoy_error *error)
{
    return convoy_json_has(root, key) ? convoy_json_double(root, key, least, most, value, error) : 0;
}

static int read_side(const struct convoy_json *object, const char *key, uint32_t *side,
                     struct convoy_error *error)
{
    return convoy_json_has(object, key) ? convoy_json_uint32(object, key, 1, SIDE_MAX, side, error) : 0;
}

/* A number, {"height", "width"} or {"shortest_edge"}; other edges say nothing of one size. */
static int read_size(const struct convoy_json *root, const char *key, bool square, struct size *size,
                     struct convoy_error *error)
{
    struct convoy_json object;
    uint32_t number = 0;
    int result;
    *size = (struct size){0};
    if (!convoy_json_has(root, key))
        return 0;
    if (cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(root->value, key))) {
        if ((result = convoy_json_uint32(root, key, 1, SIDE_MAX, &number, error)) == 0)
            *size =
                square ? (struct size){.height = number, .width = number} : (struct size){.shortest = number};
        return result;
    }
    if ((result = convoy_json_object(root, key, &object, error)) < 0 ||
        (result = read_side(&object, "height", &size->height, error)) < 0 ||
        (result = read_side(&object, "width", &size->width, error)) < 0 ||
        (result = read_side(&object, "shortest_edge", &size->shortest, error)) < 0)
        return result;
    return (size->height > 0) != (size->width > 0) || (size->height > 0) == (size->shortest > 0)
               ? convoy_fail(error, -ENOTSUP, "%s: %s is neither a height and a width nor a shortest_edge",
                             root->file, key)
               : 0;
}

static void crop_to(struct convoy_model_input *input, uint32_t resize_to, uint32_t height, uint32_t width)
{
    input->resize = CONVOY_RESIZE_CROP;
    input->resize_to = resize_to;
    input->height = height;
    input->width = width;
}

static void stretch_to(struct convoy_model_input *input, uint32_t height, uint32_t width)
{
    input->resize = CONVOY_RESIZE_STRETCH;
    input->height = height;
    input->width = width;
}

/* part: crop_pct. */
static void fit_convnext(struct convoy_model_input *input, uint32_t side, double part)
{
    if (side < 384)
        crop_to(input, (uint32_t)(side / part), side, side);
    else
        stretch_to(input, side, side);
}

/* Both sides become so long, and of that `crop` is cut where there is one. */
static int fit_sides(const struct convoy_json *root, const struct size *size, const struct size *crop,
                     struct convoy_model_input *input, struct convoy_error *error)
{
    stretch_to(input, crop->height > 0 ? crop->height : size->height,
               crop->height > 0 ? crop->width : size->width);
    if (input->height == size->height && input->width == size->width)
        return 0;
    if (size->height != size->width || input->height > size->height || input->width > size->width)
        return convoy_fail(error, -ENOTSUP,
                           "%s: a crop of %u x %u is not cut out of the %u x %u that pictures are brought to",
                           root->file, input->height, input->width, size->height, size->width);
    input->resize_to = size->height;
    return 0;
}

/* The shorter edge becomes so long, and of that `crop` is cut. */
static int fit_edge(const struct convoy_json *root, uint32_t edge, const struct size *crop,
                    struct convoy_model_input *input, struct convoy_error *error)
{
    if (crop->height == 0)
        return convoy_fail(error, -ENOTSUP,
                           "%s: pictures keep a longer side of any length, and a network here has one size",
                           root->file);
    if (edge > SIDE_MAX || crop->height > edge || crop->width > edge)
        return convoy_fail(error, -ENOTSUP,
                           "%s: a crop of %u x %u is not cut out of a shorter edge of %u pixels", root->file,
                           crop->height, crop->width, edge);
    crop_to(input, edge, crop->height, crop->width);
    return 0;
}

static int read_fit(const struct convoy_json *root, const struct processor *processor,
                    struct convoy_model_input *input, struct convoy_error *error)
{
    bool resizes = true, crops = processor->crops;
    double part = processor->rule == PART ? 0.9 : 0.875;
    bool has_part = processor->rule == CONVNEXT || processor->rule == PART;
    struct size size, crop;
    int result;
    if ((result = read_bool(root, "do_resize", &resizes, error)) < 0 ||
        (result = read_bool(root, "do_center_crop", &crops, error)) < 0 ||
        (result = read_size(root, "size", processor->square, &size, error)) < 0 ||
        (result = read_size(root, "crop_size", true, &crop, error)) < 0 ||
        (has_part && (result = read_double(root, "crop_pct", 0.01, 1.0, &part, error)) < 0))
        return result;
    if (!resizes || (size.height == 0 && size.shortest == 0))
        return convoy_fail(error, -ENOTSUP, "%s: it does not say to which size pictures are brought",
                           root->file);
    if (crops && crop.height == 0) { /* 224: the classes' own */
        uint32_t side = crop.shortest > 0 ? crop.shortest : 224;
        crop = (struct size){.height = side, .width = side};
    }
    if (!crops)
        crop = (struct size){0};
    if (processor->rule == CONVNEXT && size.shortest > 0) {
        fit_convnext(input, size.shortest, part);
        return 0;
    }
    if (processor->rule == PART && size.height > 0 && size.height == size.width)
        size = (struct size){.shortest = size.height};
    if (size.height > 0)
        return fit_sides(root, &size, &crop, input, error);
    double edge = processor->rule == PART    ? size.shortest / part
                  : processor->rule == LEVIT ? 256.0 / 224.0 * size.shortest
                                             : size.shortest;
    return fit_edge(root, (uint32_t)edge, &crop, input, error);
}

static int read_filter(const struct convoy_json *root, const struct processor *processor,
                       struct convoy_model_input *input, struct convoy_error *error)
{
    static const enum convoy_interpolation filters[] = {[NEAREST] = CONVOY_INTERPOLATION_NEAREST,
                                                        [LANCZOS] = CONVOY_INTERPOLATION_LANCZOS,
                                                        [BILINEAR] = CONVOY_INTERPOLATION_BILINEAR,
                                                        [BICUBIC] = CONVOY_INTERPOLATION_BICUBIC};
    uint32_t resample = processor->resample;
    int result = convoy_json_has(root, "resample")
                     ? convoy_json_uint32(root, "resample", 0, SIDE_MAX, &resample, error)
                     : 0;
    if (result < 0)
        return result;
    if (resample > BICUBIC)
        return convoy_fail(error, -ENOTSUP, "%s: Pillow's filter %u (resample) is not known here", root->file,
                           resample);
    input->interpolation = filters[resample];
    return 0;
}

/* The mean and the deviation of each channel: the class's, and over them the file's. */
static int read_normalisation(const struct convoy_json *root, enum convoy_preset otherwise,
                              struct convoy_model_input *input, struct convoy_error *error)
{
    const struct convoy_model_input *preset = &convoy_presets[otherwise];
    memcpy(input->mean, preset->mean, sizeof input->mean);
    memcpy(input->std, preset->std, sizeof input->std);
    input->mean_count = preset->mean_count;
    input->std_count = preset->std_count;
    return convoy_model_input_read_values(root, "image_mean", "image_std", input, error);
}

static int read_values(const struct convoy_json *root, const struct processor *processor,
                       struct convoy_model_input *input, struct convoy_error *error)
{
    bool rescales = true, normalises = processor->values != CONVOY_PRESET_NONE, twice = processor->twice,
         offset = false;
    bool flips = processor->flips;
    int result;
    if ((result = read_bool(root, "do_rescale", &rescales, error)) < 0 ||
        (result = read_double(root, "rescale_factor", 1e-9, 1e9, &input->scale, error)) < 0 ||
        (processor->flips && (result = read_bool(root, "do_flip_channel_order", &flips, error)) < 0))
        return result;
    if (processor->values != CONVOY_PRESET_NONE &&
        ((result = read_bool(root, "do_normalize", &normalises, error)) < 0 ||
         (normalises && (result = read_normalisation(root, processor->values, input, error)) < 0)))
        return result;
    if (processor->twice && ((result = read_bool(root, "include_top", &twice, error)) < 0 ||
                             (result = read_bool(root, "rescale_offset", &offset, error)) < 0))
        return result;
    if (offset || (twice && !normalises))
        return convoy_fail(error, -ENOTSUP, "%s: %s is not known here", root->file,
                           offset ? "rescale_offset" : "include_top without do_normalize");
    for (uint32_t c = 0; twice && c < input->std_count; c++)
        input->std[c] *= input->std[c]; /* ((x - mean) / std - 0) / std */
    if (!rescales)
        input->scale = 1.0;
    if (flips)
        input->color = CONVOY_COLOR_BGR;
    input->normalises = true;
    return 0;
}

int convoy_hub_preprocessor_read(const struct convoy_json *root, struct convoy_model_input *input,
                                 struct convoy_error *error)
{
    const struct processor *processor;
    int result;
    convoy_model_input_default(input);
    input->cuts_down = true;
    if ((result = find_processor(root, &processor, error)) < 0 ||
        (result = read_fit(root, processor, input, error)) < 0 ||
        (result = read_filter(root, processor, input, error)) < 0)
        return result;
    return read_values(root, processor, input, error);
}
