#include "server/config/model_config.h"

#include "tests/unit/folder.h"

#include <limits.h>
#include <math.h>
#include <unistd.h>

static const struct convoy_batching defaults = {.max_batch = 64, .max_delay_us = 700, .max_queue = 5000};
static struct convoy_error error;
static struct folder folder;
static struct convoy_model_config *config;

static void open_folder(void)
{
    folder = folder_make();
}

static void close_folder(void)
{
    convoy_model_config_free(config);
    folder_remove(&folder);
}

TestSuite(model_config, .init = open_folder, .fini = close_folder);

static void load(const char *text)
{
    convoy_model_config_free(config);
    config = NULL;
    folder_write(&folder, "config.json", text);
    cr_assert_eq(convoy_model_config_load(folder.path, &defaults, &config, &error), 0, "%s", error.message);
}

static void refused(const char *text, const char *sentence)
{
    convoy_model_config_free(config);
    config = NULL;
    folder_write(&folder, "config.json", text);
    cr_assert_lt(convoy_model_config_load(folder.path, &defaults, &config, &error), 0, "%s", text);
    cr_assert_null(config);
    assert_says(error, sentence);
    assert_says(error, folder.path);
}

static void assert_defaults(void)
{
    cr_assert_eq(config->input.color, CONVOY_COLOR_AUTO);
    cr_assert_eq(config->input.resize, CONVOY_RESIZE_STRETCH);
    cr_assert_eq(config->input.scale, 1.0 / 255.0);
    cr_assert(config->input.mean_count == 1 && config->input.mean[0] == 0.0);
    cr_assert(config->input.std_count == 1 && config->input.std[0] == 1.0);
    cr_assert_eq(config->activation, CONVOY_ACTIVATION_AUTO);
    cr_assert_eq(config->precision, CONVOY_PRECISION_FP32);
    cr_assert_eq(config->batching.max_batch, 64);
    cr_assert_eq(config->batching.max_delay_us, 700);
    cr_assert_eq(config->batching.max_queue, 5000);
    cr_assert(config->response_cache);
    cr_assert_eq(config->devices, 0);
    cr_assert_eq(config->labels.count, 0);
}

Test(model_config, without_a_file_the_defaults_hold)
{
    cr_assert_eq(convoy_model_config_load(folder.path, &defaults, &config, &error), 0, "%s", error.message);
    assert_defaults();
    cr_assert_str_eq(config->file, folder_path(&folder, "config.json"));
    load("{}");
    assert_defaults();
    load("{\"input\": {}, \"output\": {}, \"batching\": {}}");
    assert_defaults();
}

Test(model_config, every_key_is_read)
{
    folder_write(&folder, "names/classes.txt", "cat\ndog\n");
    load("{\"labels\": \"names/classes.txt\","
         " \"input\": {\"color\": \"rgb\", \"resize\": \"crop\", \"scale\": 0.5, \"mean\": [0.1, 0.2, 0.3],"
         " \"std\": [1, 2, 4]},"
         " \"output\": {\"softmax\": \"off\"}, \"precision\": \"tf32\","
         " \"batching\": {\"max_batch\": 8, \"max_delay_us\": 9, \"max_queue\": 10},"
         " \"devices\": [0, 15, 2], \"response_cache\": false}");
    cr_assert_eq(config->devices, 1u << 0 | 1u << 15 | 1u << 2);
    cr_assert_not(config->response_cache);
    cr_assert_eq(config->input.color, CONVOY_COLOR_RGB);
    cr_assert_eq(config->input.resize, CONVOY_RESIZE_CROP);
    cr_assert_eq(config->input.scale, 0.5);
    cr_assert(config->input.mean_count == 3 && config->input.mean[0] == 0.1 && config->input.mean[2] == 0.3);
    cr_assert(config->input.std_count == 3 && config->input.std[1] == 2 && config->input.std[2] == 4);
    cr_assert_eq(config->activation, CONVOY_ACTIVATION_NONE);
    cr_assert_eq(config->precision, CONVOY_PRECISION_TF32);
    cr_assert_str_eq(convoy_model_precision_text(config->precision), "tf32");
    cr_assert_eq(config->batching.max_batch, 8);
    cr_assert_eq(config->batching.max_delay_us, 9);
    cr_assert_eq(config->batching.max_queue, 10);
    cr_assert_eq(config->labels.count, 2);
    cr_assert_str_eq(config->labels.labels[1], "dog");
    cr_assert_str_eq(config->labels.name, "names/classes.txt");
    cr_assert_str_eq(convoy_softmax_text(config->activation), "off");
    cr_assert_str_eq(convoy_resize_text(config->input.resize), "crop");

    load("{\"input\": {\"color\": \"grey\", \"mean\": 0.5, \"std\": 0.25}, \"output\": {\"softmax\": \"on\"},"
         " \"precision\": \"fp16\", \"batching\": {\"max_delay_us\": 0}}");
    cr_assert_eq(config->input.color, CONVOY_COLOR_GREY);
    cr_assert(config->input.mean_count == 1 && config->input.mean[0] == 0.5 && config->input.std[0] == 0.25);
    cr_assert_eq(config->activation, CONVOY_ACTIVATION_SOFTMAX);
    cr_assert_eq(config->precision, CONVOY_PRECISION_FP16);
    cr_assert(config->batching.max_delay_us == 0 && config->batching.max_batch == 64);
}

Test(model_config, outputs_are_read)
{
    static const struct {
        const char *text, *activation, *softmax;
    } cases[] = {
        {"{\"output\": {\"activation\": \"auto\"}}", "auto", "auto"},
        {"{\"output\": {\"activation\": \"softmax\"}}", "softmax", "on"},
        {"{\"output\": {\"activation\": \"sigmoid\"}}", "sigmoid", "off"},
        {"{\"output\": {\"activation\": \"none\"}}", "none", "off"},
        {"{\"output\": {\"softmax\": \"auto\"}}", "auto", "auto"},
        {"{\"output\": {\"softmax\": \"on\"}}", "softmax", "on"},
        {"{\"output\": {\"softmax\": \"off\"}}", "none", "off"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        load(cases[i].text);
        cr_expect_str_eq(convoy_activation_text(config->activation), cases[i].activation);
        cr_expect_str_eq(convoy_softmax_text(config->activation), cases[i].softmax);
        cr_expect_eq(config->threshold, 0);
    }
    load("{\"output\": {\"threshold\": 0.25}}");
    cr_expect_eq(config->threshold, 0.25);
}

/* What covers the network's input of 28 x 32. */
static struct convoy_resizing resizing_of(const char *text)
{
    struct convoy_resizing resizing;
    load(text);
    convoy_model_input_resizing(&config->input, 28, 32, &resizing);
    return resizing;
}

Test(model_config, resizing_is_read)
{
    struct convoy_resizing r = resizing_of("{}");
    cr_assert(r.resize == CONVOY_RESIZE_STRETCH && r.interpolation == CONVOY_INTERPOLATION_BILINEAR);
    r = resizing_of("{\"input\": {\"resize\": \"crop\"}}");
    cr_assert(r.resize == CONVOY_RESIZE_CROP && r.cover_width == 32 && r.cover_height == 28);
    r = resizing_of("{\"input\": {\"resize\": \"crop\", \"resize_to\": 40, \"interpolation\": \"bicubic\"}}");
    cr_assert(r.cover_width == 40 && r.cover_height == 40);
    cr_assert_eq(r.interpolation, CONVOY_INTERPOLATION_BICUBIC);
    cr_assert_str_eq(convoy_interpolation_text(config->input.interpolation), "bicubic");
    r = resizing_of("{\"input\": {\"resize\": \"crop\", \"crop_fraction\": 0.9}}");
    cr_assert(r.cover_width == 35 && r.cover_height == 31); /* 35.6 and 31.1, rounded down */
    r = resizing_of("{\"input\": {\"resize\": \"stretch\", \"resize_to\": 40}}");
    cr_assert(r.resize == CONVOY_RESIZE_STRETCH && r.cover_width == 40 && r.cover_height == 40);
    r = resizing_of("{\"input\": {\"preset\": \"imagenet\", \"resize\": \"stretch\"}}");
    cr_assert(r.cover_width == 32 && r.cover_height == 28, "the preset's part is of its crop");
    r = resizing_of("{\"input\": {\"resize\": \"pad\", \"pad_color\": [114, 0, 254.6]}}");
    cr_assert_eq(r.resize, CONVOY_RESIZE_PAD);
    cr_assert(r.pad_color[0] == 114 && r.pad_color[1] == 0 && r.pad_color[2] == 255);
    r = resizing_of("{\"input\": {\"resize\": \"pad\", \"pad_color\": 114, \"interpolation\": \"lanczos\"}}");
    cr_assert(r.pad_color[0] == 114 && r.pad_color[1] == 114 && r.pad_color[2] == 114);
}

Test(model_config, presets_hold_what_their_networks_were_trained_with)
{
    struct convoy_resizing r = resizing_of("{\"input\": {\"preset\": \"imagenet\"}}");
    cr_assert(r.resize == CONVOY_RESIZE_CROP && r.interpolation == CONVOY_INTERPOLATION_BILINEAR);
    cr_assert(r.cover_width == 36 && r.cover_height == 32); /* 36.57 and 32 */
    cr_assert_eq(config->input.color, CONVOY_COLOR_RGB);
    cr_assert_eq(config->input.scale, 1.0 / 255.0);
    cr_assert(config->input.mean_count == 3 && config->input.mean[1] == 0.456);
    cr_assert(config->input.std_count == 3 && config->input.std[2] == 0.225);

    resizing_of("{\"input\": {\"preset\": \"imagenet-inception\"}}");
    cr_assert(config->input.mean_count == 1 && config->input.mean[0] == 0.5 && config->input.std[0] == 0.5);
    cr_assert_eq(config->input.interpolation, CONVOY_INTERPOLATION_BICUBIC);

    r = resizing_of("{\"input\": {\"preset\": \"clip\"}}");
    cr_assert(r.cover_width == 32 && r.cover_height == 28 && r.resize == CONVOY_RESIZE_CROP);
    cr_assert(config->input.mean[0] == 0.48145466 && config->input.std[1] == 0.26130258);

    resizing_of("{\"input\": {\"preset\": \"none\"}}");
    cr_assert(config->input.scale == 1.0 && config->input.mean[0] == 0.0 && config->input.std[0] == 1.0);
    cr_assert(config->input.resize == CONVOY_RESIZE_STRETCH && config->input.color == CONVOY_COLOR_AUTO);

    /* What stands beside it goes over it. */
    r = resizing_of("{\"input\": {\"preset\": \"imagenet\", \"resize_to\": 48, \"std\": 1,"
                    " \"interpolation\": \"nearest\"}}");
    cr_assert(r.cover_width == 48 && r.cover_height == 48);
    cr_assert_eq(r.interpolation, CONVOY_INTERPOLATION_NEAREST);
    cr_assert(config->input.std_count == 1 && config->input.std[0] == 1.0 && config->input.mean_count == 3);
}

Test(model_config, what_is_wrong_is_named)
{
    refused("{\"label\": \"x\"}", "unknown key 'label' (did you mean 'labels'?); the keys known here are "
                                  "labels, input, output, precision");
    refused("{\"input\": {\"colour\": \"rgb\"}}", "unknown key 'input.colour'");
    refused("{\"output\": {\"sigmoid\": 1}}", "unknown key 'output.sigmoid'");
    refused("{\"batching\": {\"delay\": 1}}", "unknown key 'batching.delay'");
    refused("{\"input\": {\"color\": \"cmyk\"}}",
            "input.color must be \"rgb\", \"grey\" or \"bgr\", found \"cmyk\"");
    refused("{\"input\": {\"resize\": \"fill\"}}", "input.resize must be");
    refused("{\"input\": {\"preset\": \"mnist\"}}", "input.preset must be \"imagenet\"");
    refused("{\"input\": {\"interpolation\": \"area\"}}", "input.interpolation must be");
    refused("{\"input\": {\"resize_to\": 256}}", "input.resize_to is for \"resize\": \"crop\"");
    refused("{\"input\": {\"crop_fraction\": 0.875}}", "input.crop_fraction is for \"resize\": \"crop\"");
    refused("{\"input\": {\"resize\": \"crop\", \"crop_fraction\": 1.1}}", "input.crop_fraction must be");
    refused("{\"input\": {\"resize\": \"crop\", \"resize_to\": 256, \"crop_fraction\": 0.875}}",
            "give one of them");
    refused("{\"input\": {\"resize\": \"crop\", \"pad_color\": 0}}", "input.pad_color is for");
    refused("{\"input\": {\"resize\": \"pad\", \"pad_color\": [1, 2]}}", "red, green and blue");
    refused("{\"input\": {\"resize\": \"pad\", \"pad_color\": 256}}", "input.pad_color must be");
    refused("{\"input\": {\"scale\": 0}}", "input.scale must be");
    refused("{\"input\": {\"mean\": []}}", "input.mean must be");
    refused("{\"input\": {\"mean\": [1, 2, 3, 4, 5]}}", "input.mean must be");
    refused("{\"input\": {\"std\": 0}}", "input.std must be");
    refused("{\"input\": {\"std\": [1, -1, 1]}}", "input.std must be");
    refused("{\"input\": {\"std\": [1, \"a\", 1]}}", "input.std must be");
    refused("{\"input\": {\"mean\": 1e999}}", "'input.mean' is too large");
    refused("{\"output\": {\"softmax\": true}}", "output.softmax must be");
    refused("{\"output\": {\"activation\": \"relu\"}}", "output.activation must be");
    refused("{\"output\": {\"activation\": \"none\", \"softmax\": \"off\"}}", "give one of them");
    refused("{\"output\": {\"threshold\": 1.5}}", "output.threshold must be");
    refused("{\"precision\": \"int8\"}", "precision must be \"fp32\", \"tf32\" or \"fp16\"");
    refused("{\"batching\": {\"max_batch\": 0}}", "batching.max_batch must be");
    refused("{\"response_cache\": 1}", "response_cache must be true or false, found 1");
    refused("{\"devices\": []}", "devices must be an array of whole numbers from 0 to 15, one at least and "
                                 "none twice, found an array");
    refused("{\"devices\": 0}", "devices must be an array");
    refused("{\"devices\": [16]}", "devices must be an array of whole numbers from 0 to 15");
    refused("{\"devices\": [0, -1]}", "found -1");
    refused("{\"devices\": [0.5]}", "found 0.5");
    refused("{\"devices\": [1, 0, 1]}", "none twice, found 1");
    refused("{\"devices\": [\"0\"]}", "devices must be an array");
    refused("{\"labels\": 3}", "labels must be a string");
    refused("{", "config.json:1:");
}

Test(model_config, labels_lie_inside_the_folder)
{
    folder_write(&folder, "labels.txt", "a\nb\nc");
    load("{}"); /* found without being named */
    cr_assert_eq(config->labels.count, 3);
    load("{\"labels\": \"./labels.txt\"}");
    refused("{\"labels\": \"none.txt\"}", "labels names \"none.txt\", but there is no file");
    refused("{\"labels\": \"/etc/hostname\"}", "must name a file inside the model's folder");
    refused("{\"labels\": \"../labels.txt\"}", "must name a file inside the model's folder");
    refused("{\"labels\": \"a/../../labels.txt\"}", "must name a file inside the model's folder");
    refused("{\"labels\": \"a/..\"}", "must name a file inside the model's folder");
    refused("{\"labels\": \"\"}", "must name a file inside the model's folder");
    refused("{\"labels\": \".\"}", "must be a file inside the model's folder");
    struct folder elsewhere = folder_make();
    folder_write(&elsewhere, "secret", "root:x:0:0\n");
    char target[PATH_MAX], path[PATH_MAX];
    snprintf(target, sizeof target, "%s/secret", elsewhere.path);
    snprintf(path, sizeof path, "%s/link.txt", folder.path);
    cr_assert_eq(symlink(target, path), 0);
    refused("{\"labels\": \"link.txt\"}", "\"link.txt\" is a link to another place");
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(symlink("labels.txt", path), 0); /* as Kubernetes links the files of a volume */
    load("{\"labels\": \"link.txt\"}");
    cr_assert_eq(config->labels.count, 3);
    cr_assert_eq(unlink(path), 0);
    folder_remove(&elsewhere);
    folder_write(&folder, "labels.txt", "a\n\xFF\n");
    refused("{}", "labels.txt: line 2 is not UTF-8");
}

/* ---- Label files ---- */

static struct convoy_label_list list;

static int read_labels(const char *bytes, size_t length)
{
    return convoy_label_list_read(folder_write_bytes(&folder, "l.txt", bytes, length), &list, &error);
}

Test(model_config, label_files)
{
    static const struct {
        const char *text;
        uint32_t count;
        const char *labels[4];
    } cases[] = {
        {"cat", 1, {"cat"}},
        {"cat\n", 1, {"cat"}},
        {"cat\r\ndog\r\n", 2, {"cat", "dog"}},
        {"cat\n\ndog", 3, {"cat", "", "dog"}},
        {"\ncat\n", 2, {"", "cat"}},
        {"cat\n\n", 2, {"cat", ""}},
        {"\xEF\xBB\xBFK\xC3\xA4se\n n02 x, y \n", 2, {"K\xC3\xA4se", " n02 x, y "}},
        {"a\rb\n", 1, {"a\rb"}},
        {"\r\n\r\n", 2, {"", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(read_labels(cases[i].text, strlen(cases[i].text)), 0, "%zu: %s", i, error.message);
        cr_assert_eq(list.count, cases[i].count, "%zu", i);
        for (uint32_t j = 0; j < list.count; j++)
            cr_assert_str_eq(list.labels[j], cases[i].labels[j], "%zu", i);
        convoy_label_list_free(&list);
        cr_assert_eq(list.count, 0);
    }
}

Test(model_config, label_files_that_are_refused)
{
    static const char *const empty[] = {"", "\n", "\xEF\xBB\xBF"};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        cr_assert_eq(read_labels(empty[i], strlen(empty[i])), -EINVAL, "%zu", i);
        assert_says(error, "holds no label");
    }
    cr_assert_eq(read_labels("a\nb\0c\n", 6), -EINVAL);
    assert_says(error, "l.txt: line 2 holds a NUL byte");
    cr_assert_eq(read_labels("a\nb\nc\xC3\n", 7), -EINVAL);
    assert_says(error, "l.txt: line 3 is not UTF-8");
}

Test(model_config, label_files_are_bounded)
{
    size_t most = CONVOY_LABELS_MAX;
    char *text = malloc(CONVOY_LABELS_MAX_BYTES + 1);
    memset(text, '\n', CONVOY_LABELS_MAX_BYTES + 1);
    cr_assert_eq(read_labels(text, most), 0, "%s", error.message);
    cr_assert_eq(list.count, CONVOY_LABELS_MAX);
    convoy_label_list_free(&list);
    cr_assert_eq(read_labels(text, most + 1), -EFBIG);
    assert_says(error, "1000001 lines");
    cr_assert_eq(read_labels(text, CONVOY_LABELS_MAX_BYTES + 1), -EFBIG);
    assert_says(error, "16777217 bytes");
    free(text);
}

/* ---- Against the network ---- */

static int check(uint32_t channels)
{
    return convoy_model_input_check(&config->input, config->file, channels, 28, 32, &error);
}

Test(model_config, the_configuration_must_fit_the_network)
{
    load("{}");
    for (uint32_t channels = 1; channels < 70; channels++)
        cr_assert_eq(check(channels), 0);
    load("{\"input\": {\"color\": \"rgb\"}}");
    cr_assert_eq(check(3), 0);
    cr_assert_eq(check(1), -EINVAL);
    assert_says(error, "config.json: input.color is \"rgb\" (3 channels), but the network reads 1 x 28 x 32");
    assert_says(error, "write \"grey\"");
    load("{\"input\": {\"color\": \"grey\"}}");
    cr_assert_eq(check(1), 0);
    cr_assert_eq(check(3), -EINVAL);
    assert_says(error, "write \"rgb\"");
    cr_assert_eq(check(7), -EINVAL);
    assert_says(error, "leave input.color out");
    load("{\"input\": {\"color\": \"bgr\"}}");
    cr_assert_eq(check(3), 0);
    cr_assert_eq(check(1), -EINVAL);
    assert_says(error, "input.color is \"bgr\" (3 channels)");
    load("{\"input\": {\"mean\": [1, 2, 3]}}");
    cr_assert_eq(check(3), 0);
    cr_assert_eq(check(1), -EINVAL);
    assert_says(error, "input.mean has 3 values, but the network reads 1 x 28 x 32 (C x H x W); give one");
    load("{\"input\": {\"std\": [1, 2]}}");
    cr_assert_eq(check(2), 0);
    cr_assert_eq(check(3), -EINVAL);
    assert_says(error, "input.std has 2 values");
    load("{\"input\": {\"resize\": \"crop\", \"resize_to\": 32}}");
    cr_assert_eq(check(3), 0);
    load("{\"input\": {\"resize\": \"crop\", \"resize_to\": 31}}");
    cr_assert_eq(check(3), -EINVAL);
    assert_says(error, "input.resize_to is 31, but the network reads 28 x 32 pixels");
}

/* Against the formula as it is written in the documentation, for every pixel value. */
Test(model_config, the_transform_is_the_documented_formula)
{
    float multiply[CONVOY_PIXEL_CHANNELS], add[CONVOY_PIXEL_CHANNELS];
    load("{\"input\": {\"scale\": 0.00392156862745098, \"mean\": [0.4914, 0.4822, 0.4465],"
         " \"std\": [0.247, 0.2435, 0.2616]}}");
    convoy_model_input_transform(&config->input, 3, multiply, add);
    for (int c = 0; c < 3; c++) {
        for (int x = 0; x < 256; x++) {
            double exact = (x * config->input.scale - config->input.mean[c]) / config->input.std[c];
            cr_assert_lt(fabs((double)multiply[c] * x + (double)add[c] - exact), 3e-7, "channel %d, %d", c,
                         x);
        }
    }
    load("{\"input\": {\"scale\": 2, \"mean\": 3, \"std\": [4, 8]}}");
    convoy_model_input_transform(&config->input, CONVOY_PIXEL_CHANNELS, multiply, add);
    cr_assert(multiply[0] == 0.5f && add[0] == -0.75f);
    for (int c = 1; c < CONVOY_PIXEL_CHANNELS; c++)
        cr_assert(multiply[c] == 0.25f && add[c] == -0.375f);
    load("{\"input\": {\"scale\": 1, \"mean\": [1, 2]}}");
    convoy_model_input_transform(&config->input, CONVOY_PIXEL_CHANNELS, multiply, add);
    cr_assert(add[0] == -1 && add[1] == -2 && add[2] == -2 && add[3] == -2);
    /* The outermost values that are accepted still give numbers. */
    load("{\"input\": {\"scale\": 1e9, \"mean\": -1e9, \"std\": 1e-9}}");
    convoy_model_input_transform(&config->input, 1, multiply, add);
    cr_assert(isfinite(multiply[0]) && isfinite(add[0]));
}

Test(model_config, says_how_the_input_of_the_network_lies_and_how_large_it_is)
{
    load("{}");
    cr_assert(config->input.layout == CONVOY_AXES_AUTO && config->input.height == 0 &&
              config->input.width == 0);
    cr_assert_not(config->input.normalises);
    load("{\"input\": {\"layout\": \"nhwc\", \"height\": 1, \"width\": 65535, \"color\": \"bgr\"}}");
    cr_assert(config->input.layout == CONVOY_AXES_NHWC && config->input.height == 1 &&
              config->input.width == 65535);
    cr_assert_not(config->input.normalises, "nothing of this normalises");
    load("{\"input\": {\"layout\": \"nchw\", \"preset\": \"none\"}}");
    cr_assert(config->input.layout == CONVOY_AXES_NCHW && config->input.normalises);
    load("{\"input\": {\"mean\": 0}}");
    cr_assert(config->input.normalises);
    refused("{\"input\": {\"layout\": \"hwc\"}}", "input.layout must be");
    refused("{\"input\": {\"height\": 0}}", "input.height must be");
    refused("{\"input\": {\"width\": 65536}}", "input.width must be");
}

Test(model_config, a_network_of_four_channels_reads_colours_and_alpha)
{
    load("{\"input\": {\"color\": \"bgr\", \"mean\": [1, 2, 3, 4]}}");
    cr_assert_eq(check(4), 0);
    load("{\"input\": {\"color\": \"grey\"}}");
    cr_assert_eq(check(4), -EINVAL);
    assert_says(error, "write \"rgb\" or \"bgr\"");
    load("{\"input\": {\"preset\": \"imagenet\"}}");
    cr_assert_eq(check(4), -EINVAL);
    assert_says(error, "input.mean has 3 values");
}
