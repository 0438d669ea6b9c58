#include "server/daemon/check_report.h"

#include <math.h>
#include <stdio.h>

/* A name that a file gives, without what a terminal would obey. */
static void print_name(const char *name)
{
    for (; *name != '\0'; name++)
        putchar((unsigned char)*name < 0x20 || *name == 0x7F ? '?' : *name);
}

static void print_values(const double *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        printf(" %.6g", values[i]);
}

static void print_resizing(const struct convoy_model_input *input, const struct convoy_model_shape *shape)
{
    struct convoy_resizing resizing;

    convoy_model_input_resizing(input, shape->height, shape->width, &resizing);
    switch (resizing.resize) {
    case CONVOY_RESIZE_CROP:
        printf("scaled to cover %u x %u, centre cropped", resizing.cover_width, resizing.cover_height);
        break;
    case CONVOY_RESIZE_PAD:
        printf("scaled to fit, padded with %u %u %u", resizing.pad_color[0], resizing.pad_color[1],
               resizing.pad_color[2]);
        break;
    default:
        if (resizing.cover_width > shape->width || resizing.cover_height > shape->height)
            printf("stretched to %u x %u, centre cropped", resizing.cover_width, resizing.cover_height);
        else
            printf("stretched");
    }
    printf(" to %u x %u (width x height), %s\n", shape->width, shape->height,
           convoy_interpolation_text(resizing.interpolation));
}

static void print_input(const struct convoy_model_input *input, const struct convoy_model_shape *shape)
{
    printf("  input    '");
    print_name(shape->input_name);
    printf("', %u x %u x %u (channels x height x width)", shape->channels, shape->height, shape->width);
    if (shape->input_type != CONVOY_INPUT_FP32)
        printf(", %s", convoy_input_type_text(shape->input_type));
    printf("%s\n", shape->input_nhwc ? ", channels last" : "");
    if (!convoy_model_takes_pictures(shape))
        return;
    printf("  pictures %s%s, ",
           shape->channels == 1               ? "grey"
           : input->color == CONVOY_COLOR_BGR ? "blue, green, red"
                                              : "red, green, blue",
           shape->channels == 4 ? ", alpha" : "");
    print_resizing(input, shape);
    if (shape->input_type == CONVOY_INPUT_UINT8 && !input->normalises) {
        printf("  pixels   (0 to 255) as they are\n");
        return;
    }
    printf("  pixels   (0 to 255) times %.6g, less", input->scale);
    print_values(input->mean, input->mean_count);
    printf(", divided by");
    print_values(input->std, input->std_count);
    putchar('\n');
}

static const char *activation_sentence(const struct convoy_model_record *model,
                                       const struct convoy_model_shape *shape)
{
    switch (model->config->activation) {
    case CONVOY_ACTIVATION_SOFTMAX:
        return "softmax makes probabilities";
    case CONVOY_ACTIVATION_SIGMOID:
        return "a sigmoid makes probabilities";
    case CONVOY_ACTIVATION_NONE:
        return "taken as they are";
    default:
        return shape->ends_in_softmax   ? "they come from a softmax"
               : shape->ends_in_sigmoid ? "they come from a sigmoid"
                                        : "softmax makes probabilities";
    }
}

static const struct convoy_label_list *labels_of(const struct convoy_model_record *model)
{
    static const struct convoy_label_list none;

    return model->labels != NULL ? convoy_labels_list(model->labels) : &none;
}

static void print_outputs(const struct convoy_model_record *model, const struct convoy_model_shape *shape)
{
    const struct convoy_label_list *labels = labels_of(model);

    printf("  output   '");
    print_name(shape->output_names[0]);
    printf("', %u classes, %s", shape->output_elements[0], activation_sentence(model, shape));
    if (model->config->threshold > 0)
        printf(", from %g on", model->config->threshold);
    printf("\n  labels   ");
    if (labels->count == 0) {
        printf("none: classes are called by their numbers\n");
        return;
    }
    printf("%u: ", labels->count);
    print_name(labels->labels[0]);
    printf(" to ");
    print_name(labels->labels[labels->count - 1]);
    putchar('\n');
}

static void print_place(const struct convoy_model_record *model, uint64_t weight_bytes)
{
    printf("  weights  %.1f MB on ", (double)weight_bytes / 1e6);
    if (model->config->devices == 0)
        printf("each device");
    for (uint32_t i = 0, printed = 0; i < CONVOY_MODEL_DEVICES; i++)
        if (model->config->devices >> i & 1)
            printf("%s%u", printed++ == 0 ? "device " : ", ", i);
    printf(", %s at least\n", convoy_model_precision_text(model->config->precision));
}

static double largest(const double *values, uint32_t count)
{
    double most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = fmax(most, fabs(values[i]));
    return most;
}

static void warn_of_input(const struct convoy_model_input *input, const struct convoy_model_shape *shape)
{
    double mean = largest(input->mean, input->mean_count), std = largest(input->std, input->std_count);

    if (!convoy_model_takes_pictures(shape)) {
        printf("  warning: it takes no pictures, as it reads %u channels: only /infer with tensors\n",
               shape->channels);
        return;
    }
    /* Pixels are between 0 and 255 times the scale. */
    if (mean > 255 * input->scale)
        printf("  warning: input.mean is above every pixel, which input.scale brings to %.6g at most: were "
               "the mean and std given for pixels from 0 to 255? Then say \"scale\": 1\n",
               255 * input->scale);
    else if (input->scale == 1.0 && mean > 0 && mean <= 1.0 && std <= 1.0)
        printf("  warning: input.mean and input.std are those of pixels from 0 to 1, but with input.scale 1 "
               "pixels go to 255: leave input.scale out\n");
}

static void warn_of_output(const struct convoy_model_record *model, const struct convoy_model_shape *shape)
{
    const struct convoy_model_config *config = model->config;
    bool applies =
        config->activation == CONVOY_ACTIVATION_SOFTMAX || config->activation == CONVOY_ACTIVATION_SIGMOID;

    uint32_t labels = labels_of(model)->count;
    if (labels != 0 && labels != shape->output_elements[0])
        printf("  warning: %u labels for %u classes: are these another model's labels?\n", labels,
               shape->output_elements[0]);
    if (applies && (shape->ends_in_softmax || shape->ends_in_sigmoid))
        printf("  warning: output.activation is %s, but the network ends in a %s: leave it out\n",
               convoy_activation_text(config->activation), shape->ends_in_softmax ? "softmax" : "sigmoid");
    bool softmax =
        config->activation == CONVOY_ACTIVATION_SOFTMAX ||
        (config->activation == CONVOY_ACTIVATION_AUTO && !shape->ends_in_softmax && !shape->ends_in_sigmoid);
    if (shape->output_elements[0] == 1 && softmax)
        printf("  warning: of one class softmax makes 1 whatever the picture shows: set output.activation to "
               "sigmoid; for a place that ArgMax finds ask /infer\n");
    if (shape->output_count > 1)
        printf("  warning: of its %u outputs /classify shows the first; /infer gives all\n",
               shape->output_count);
}

void convoy_check_report(const struct convoy_model_record *model, const struct convoy_model_shape *shape,
                         uint64_t weight_bytes)
{
    print_input(&model->config->input, shape);
    print_outputs(model, shape);
    print_place(model, weight_bytes);
    warn_of_input(&model->config->input, shape);
    warn_of_output(model, shape);
}
