/* Folders as they come from the Hugging Face hub: what their files say of pictures and classes. */
#include "server/config/hub_folder.h"

#include "server/config/model_config.h"
#include "tests/unit/folder.h"

static const struct convoy_batching defaults = {.max_batch = 64, .max_delay_us = 700, .max_queue = 5000};
static struct convoy_error error;
static struct folder folder;
static struct convoy_model_config *config;

static void open_folder(void)
{
    folder = folder_make();
    folder_write(&folder, "config.json", "{\"model_type\": \"vit\", \"architectures\": [\"X\"]}");
}

static void close_folder(void)
{
    convoy_model_config_free(config);
    folder_remove(&folder);
}

TestSuite(hub_folder, .init = open_folder, .fini = close_folder);

static int try_load(void)
{
    convoy_model_config_free(config);
    config = NULL;
    return convoy_model_config_load(folder.path, &defaults, &config, &error);
}

static void load(void)
{
    cr_assert_eq(try_load(), 0, "%s", error.message);
}

/* What the last file that was written is refused for. */
static void refused(int code, const char *sentence)
{
    cr_assert_eq(try_load(), code, "%s", error.message);
    cr_assert_null(config);
    assert_says(error, sentence);
    assert_says(error, folder.path);
}

/* The file's keys, with ' in place of ". */
static void write_quoted(const char *name, const char *text)
{
    char *quoted = strdup(text);
    cr_assert_not_null(quoted);
    for (char *c = quoted; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    folder_write(&folder, name, quoted);
    free(quoted);
}

static void write_preprocessor(const char *text)
{
    write_quoted("preprocessor_config.json", text);
}

struct expected {
    const char *text;
    enum convoy_resize resize;
    uint32_t side, cover; /* of the input, and of what it is cut out of */
    enum convoy_interpolation interpolation;
    double low, high; /* what a red of 0 and one of 255 become */
};

static void check(const struct expected *expected)
{
    struct convoy_resizing resizing;
    float multiply[3], add[3];
    write_preprocessor(expected->text);
    load();
    const struct convoy_model_input *input = &config->input;
    convoy_model_input_resizing(input, input->height, input->width, &resizing);
    convoy_model_input_transform(input, 3, multiply, add);
    cr_expect(input->height == expected->side && input->width == expected->side, "%u x %u: %s", input->height,
              input->width, expected->text);
    cr_expect_eq(resizing.resize, expected->resize, "%s", expected->text);
    cr_expect(resizing.cuts_down);
    cr_expect(resizing.cover_width == expected->cover && resizing.cover_height == expected->cover,
              "%u x %u: %s", resizing.cover_width, resizing.cover_height, expected->text);
    cr_expect_eq(input->interpolation, expected->interpolation, "%s", expected->text);
    cr_expect_float_eq(add[0], expected->low, 1e-6, "%g: %s", (double)add[0], expected->text);
    cr_expect_float_eq(255 * multiply[0] + add[0], expected->high, 1e-5, "%g: %s",
                       (double)(255 * multiply[0] + add[0]), expected->text);
    cr_expect(input->normalises && input->color == CONVOY_COLOR_AUTO);
}

#define IMAGENET "'image_mean': [0.485, 0.456, 0.406], 'image_std': [0.229, 0.224, 0.225]"
#define LOW      (-0.485 / 0.229)
#define HIGH     (0.515 / 0.229)

/* The sizes and values are what the classes of transformers 5.24 make of such a file. */
Test(hub_folder, each_class_prepares_pictures_in_its_own_way)
{
    static const struct expected cases[] = {
        {"{'image_processor_type': 'ViTImageProcessor', 'size': {'height': 224, 'width': 224}, 'resample': "
         "2}",
         CONVOY_RESIZE_STRETCH, 224, 224, CONVOY_INTERPOLATION_BILINEAR, -1, 1},
        {"{'feature_extractor_type': 'ViTFeatureExtractor', 'size': 384, 'resample': 3, " IMAGENET "}",
         CONVOY_RESIZE_STRETCH, 384, 384, CONVOY_INTERPOLATION_BICUBIC, LOW, HIGH},
        {"{'image_processor_type': 'ViTFeatureExtractor', 'size': 224}", CONVOY_RESIZE_STRETCH, 224, 224,
         CONVOY_INTERPOLATION_BILINEAR, -1, 1},
        {"{'size': 224}", CONVOY_RESIZE_STRETCH, 224, 224, CONVOY_INTERPOLATION_BILINEAR, -1, 1},
        {"{'image_processor_type': 'DeiTImageProcessorFast', 'size': 256, 'crop_size': 224, 'resample': "
         "3, " IMAGENET "}",
         CONVOY_RESIZE_STRETCH, 224, 256, CONVOY_INTERPOLATION_BICUBIC, LOW, HIGH},
        {"{'image_processor_type': 'DeiTImageProcessor', 'size': 256, 'do_center_crop': false, 'crop_size': "
         "224}",
         CONVOY_RESIZE_STRETCH, 256, 256, CONVOY_INTERPOLATION_BICUBIC, -1, 1},
        {"{'feature_extractor_type': 'BeitFeatureExtractor', 'size': 224, 'crop_size': 224, 'resample': 2}",
         CONVOY_RESIZE_STRETCH, 224, 224, CONVOY_INTERPOLATION_BILINEAR, -1, 1},
        {"{'feature_extractor_type': 'ConvNextFeatureExtractor', 'size': 224, 'crop_pct': 0.875, 'resample': "
         "3, "
         "'do_center_crop': null, " IMAGENET "}",
         CONVOY_RESIZE_CROP, 224, 256, CONVOY_INTERPOLATION_BICUBIC, LOW, HIGH},
        {"{'image_processor_type': 'ConvNextImageProcessor', 'size': {'shortest_edge': 288}, 'crop_pct': "
         "0.95}",
         CONVOY_RESIZE_CROP, 288, 303, CONVOY_INTERPOLATION_BICUBIC, -1, 1},
        {"{'image_processor_type': 'ConvNextImageProcessor', 'size': {'shortest_edge': 384}, 'crop_pct': "
         "0.95}",
         CONVOY_RESIZE_STRETCH, 384, 384, CONVOY_INTERPOLATION_BICUBIC, -1, 1},
        {"{'image_processor_type': 'BitImageProcessor', 'size': {'shortest_edge': 256}, 'crop_size': "
         "{'height': 224, "
         "'width': 224}, 'do_rescale': true, 'rescale_factor': 0.00392156862745098, " IMAGENET "}",
         CONVOY_RESIZE_CROP, 224, 256, CONVOY_INTERPOLATION_BICUBIC, LOW, HIGH},
        {"{'feature_extractor_type': 'CLIPFeatureExtractor', 'size': 336, 'crop_size': 336}",
         CONVOY_RESIZE_CROP, 336, 336, CONVOY_INTERPOLATION_BICUBIC, -0.48145466 / 0.26862954,
         (1 - 0.48145466) / 0.26862954},
        {"{'feature_extractor_type': 'LevitFeatureExtractor', 'size': 224, 'resample': 3}",
         CONVOY_RESIZE_CROP, 224, 256, CONVOY_INTERPOLATION_BICUBIC, LOW, HIGH},
        {"{'image_processor_type': 'MobileNetV2ImageProcessor', 'size': {'shortest_edge': 256}, 'crop_size': "
         "{'height': 192, 'width': 192}}",
         CONVOY_RESIZE_CROP, 192, 256, CONVOY_INTERPOLATION_BILINEAR, -1, 1},
        {"{'feature_extractor_type': 'PoolFormerFeatureExtractor', 'size': 224, 'crop_pct': 0.9}",
         CONVOY_RESIZE_CROP, 224, 248, CONVOY_INTERPOLATION_BICUBIC, LOW, HIGH},
        {"{'image_processor_type': 'PoolFormerImageProcessor', 'size': {'height': 224, 'width': 224}, "
         "'crop_pct': "
         "0.95, 'resample': 1}",
         CONVOY_RESIZE_CROP, 224, 235, CONVOY_INTERPOLATION_LANCZOS, LOW, HIGH},
        {"{'image_processor_type': 'PvtImageProcessor', 'size': {'height': 224, 'width': 224}}",
         CONVOY_RESIZE_STRETCH, 224, 224, CONVOY_INTERPOLATION_BILINEAR, LOW, HIGH},
        {"{'image_processor_type': 'SegformerImageProcessor', 'size': 512, 'do_normalize': false}",
         CONVOY_RESIZE_STRETCH, 512, 512, CONVOY_INTERPOLATION_BILINEAR, 0, 1},
        {"{'image_processor_type': 'SiglipImageProcessor', 'size': {'height': 256, 'width': 256}, "
         "'do_rescale': "
         "false, 'image_mean': 0, 'image_std': 2}",
         CONVOY_RESIZE_STRETCH, 256, 256, CONVOY_INTERPOLATION_BICUBIC, 0, 127.5},
        {"{'image_processor_type': 'EfficientNetImageProcessor', 'size': {'height': 224, 'width': 224}, "
         "'resample': "
         "0, 'image_mean': [0.485, 0.456, 0.406], 'image_std': [0.5, 0.4, 0.3], 'rescale_offset': false}",
         CONVOY_RESIZE_STRETCH, 224, 224, CONVOY_INTERPOLATION_NEAREST, -0.485 / 0.25, 0.515 / 0.25},
        {"{'image_processor_type': 'EfficientNetImageProcessor', 'size': 300, 'include_top': false}",
         CONVOY_RESIZE_STRETCH, 300, 300, CONVOY_INTERPOLATION_NEAREST, -1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&cases[i]);
}

Test(hub_folder, mobilevit_reads_blue_first_and_does_not_normalise)
{
    write_preprocessor(
        "{'feature_extractor_type': 'MobileViTFeatureExtractor', 'size': 288, 'crop_size': 256, "
        "'do_normalize': true}");
    load();
    cr_expect_eq(config->input.color, CONVOY_COLOR_BGR);
    cr_expect(config->input.mean[0] == 0 && config->input.std[0] == 1 && config->input.std_count == 1);
    cr_expect(config->input.resize_to == 288 && config->input.width == 256);
    write_preprocessor("{'image_processor_type': 'MobileViTImageProcessor', 'size': {'shortest_edge': 288}, "
                       "'crop_size': {'height': 256, 'width': 256}, 'do_flip_channel_order': false}");
    load();
    cr_expect_eq(config->input.color, CONVOY_COLOR_AUTO);
}

Test(hub_folder, what_cannot_be_done_is_refused)
{
    static const struct {
        const char *text, *sentence;
        int code;
    } cases[] = {
        {"{'image_processor_type': 'Siglip2ImageProcessor', 'size': 224}",
         "the image processor Siglip2ImageProcessor is not known here", -ENOTSUP},
        {"{'image_processor_type': 'ViTImageProcessorX', 'size': 224}", "ViTImageProcessorX is not known",
         -ENOTSUP},
        {"{'image_processor_type': 7, 'size': 224}", "image_processor_type must be a string", -EINVAL},
        {"{}", "does not say to which size", -ENOTSUP},
        {"{'size': 224, 'do_resize': false}", "does not say to which size", -ENOTSUP},
        {"{'size': 0}", "size must be an integer from 1 to 65535", -EINVAL},
        {"{'size': {'height': 224}}", "size is neither a height and a width nor a shortest_edge", -ENOTSUP},
        {"{'size': {'longest_edge': 224}}", "size is neither", -ENOTSUP},
        {"{'size': {'height': 9, 'width': 9, 'shortest_edge': 9}}", "size is neither", -ENOTSUP},
        {"{'size': {'height': 1e9, 'width': 9}}", "size.height must be an integer", -EINVAL},
        {"{'size': [224, 224]}", "size must be an object", -EINVAL},
        {"{'size': {'shortest_edge': 224}}", "keep a longer side of any length", -ENOTSUP},
        {"{'size': {'height': 256, 'width': 128}, 'do_center_crop': true}",
         "a crop of 224 x 224 is not cut out", -ENOTSUP},
        {"{'image_processor_type': 'CLIPImageProcessor', 'size': 200, 'crop_size': 224}",
         "a crop of 224 x 224 is not cut out of a shorter edge of 200", -ENOTSUP},
        {"{'image_processor_type': 'CLIPImageProcessor', 'size': 256, 'crop_size': {'height': 300, 'width': "
         "200}}",
         "a crop of 300 x 200 is not cut out of a shorter edge of 256", -ENOTSUP},
        {"{'image_processor_type': 'DeiTImageProcessor', 'size': {'height': 256, 'width': 300}}",
         "a crop of 224 x 224 is not cut out of the 256 x 300", -ENOTSUP},
        {"{'image_processor_type': 'PoolFormerImageProcessor', 'size': 65535, 'crop_pct': 0.5}",
         "is not cut out of a shorter edge", -ENOTSUP},
        {"{'image_processor_type': 'ConvNextImageProcessor', 'size': 224, 'crop_pct': 0}",
         "crop_pct must be a number from 0.01 to 1", -EINVAL},
        {"{'size': 224, 'resample': 4}", "Pillow's filter 4 (resample) is not known", -ENOTSUP},
        {"{'size': 224, 'image_std': [0, 1, 1]}", "image_std", -EINVAL},
        {"{'size': 224, 'image_mean': [0, 1, 1, 1, 1]}", "image_mean", -EINVAL},
        {"{'image_processor_type': 'EfficientNetImageProcessor', 'size': 224, 'rescale_offset': true}",
         "rescale_offset is not known", -ENOTSUP},
        {"[]", "must be a JSON object", -EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_preprocessor(cases[i].text);
        refused(cases[i].code, cases[i].sentence);
        assert_says(error, "preprocessor_config.json");
        assert_says(error, "or write the preprocessing as \"input\" into");
    }
    cr_assert_eq(remove(folder_path(&folder, "preprocessor_config.json")), 0);
    refused(
        -ENOENT,
        "preprocessor_config.json is not there, which comes with config.json: download it, too; or write");
}

Test(hub_folder, own_keys_go_over_what_the_hub_says)
{
    write_preprocessor("{'size': 224}");
    write_quoted("convoyd-model.json", "{'precision': 'fp16', 'devices': [0]}");
    load();
    cr_expect_eq(config->precision, CONVOY_PRECISION_FP16);
    cr_expect(config->input.height == 224 && config->input.mean[0] == 0.5 && config->input.normalises);
    cr_expect_str_eq(config->file, folder_path(&folder, "convoyd-model.json"));

    /* An input of one's own needs none of the hub's. */
    write_preprocessor("{'image_processor_type': 'unknown'}");
    write_quoted("convoyd-model.json", "{'input': {'preset': 'clip'}}");
    load();
    cr_expect(config->input.mean[0] == 0.48145466 && config->input.height == 0);

    write_quoted("convoyd-model.json", "{'precision': 'fp64'}");
    refused(-ENOTSUP, "the image processor unknown"); /* the hub's first */
    write_preprocessor("{'size': 224}");
    refused(-EINVAL, "convoyd-model.json: precision must be");
    write_quoted("convoyd-model.json", "{'model_type': 'vit'}");
    refused(-EINVAL, "convoyd-model.json: unknown key 'model_type'");
}

Test(hub_folder, without_the_hub_one_file_holds_the_keys)
{
    write_quoted("config.json", "{'precision': 'fp16'}");
    write_quoted("convoyd-model.json", "{}");
    refused(-EINVAL, "are both convoyd's: keep one of them");
    cr_assert_eq(remove(folder_path(&folder, "config.json")), 0);
    write_quoted("convoyd-model.json", "{'precision': 'tf32'}");
    load();
    cr_expect_eq(config->precision, CONVOY_PRECISION_TF32);
}

static void write_hub(const char *text)
{
    write_preprocessor("{'size': 224}");
    write_quoted("config.json", text);
}

static void expect_labels(const char *const *labels)
{
    load();
    uint32_t count = 0;
    for (; labels[count] != NULL; count++) {
        cr_assert_lt(count, config->labels.count);
        cr_expect_str_eq(config->labels.labels[count], labels[count]);
    }
    cr_expect_eq(config->labels.count, count);
    cr_expect(count == 0 || config->labels.name != NULL);
}

Test(hub_folder, classes_are_named)
{
    static const char *const fish[] = {"tench, Tinca tinca", "", "sh\xC3\xA4rk", NULL}, *const none[] = {
                                                                                            NULL};
    write_hub("{'model_type': 'vit', 'id2label': {'1': '', '2': 'sh\\u00e4rk', '0': 'tench, Tinca tinca'}}");
    expect_labels(fish);
    cr_expect_str_eq(config->labels.name, "config.json");
    static const char *const unnamed[] = {
        "{'model_type': 'vit', 'id2label': {'0': 'LABEL_0', '1': 'LABEL_1'}}",
        "{'model_type': 'vit', 'id2label': {'0': 'a', '2': 'b'}}",
        "{'model_type': 'vit', 'id2label': {'0': 'a', '00': 'b'}}",
        "{'model_type': 'vit', 'id2label': {'0': 'a', '-1': 'b'}}",
        "{'model_type': 'vit', 'id2label': {'0': 'a', '18446744073709551617': 'b'}}",
        "{'model_type': 'vit', 'id2label': {'0': 'a', '1': 1}}",
        "{'model_type': 'vit', 'id2label': {'': 'a'}}",
        "{'model_type': 'vit', 'id2label': {}}",
        "{'model_type': 'vit', 'id2label': ['a', 'b']}",
        "{'model_type': 'vit', 'label_names': ['a', 7]}",
        "{'model_type': 'vit', 'label_names': 'a'}",
    };
    for (size_t i = 0; i < sizeof unnamed / sizeof *unnamed; i++) {
        write_hub(unnamed[i]);
        expect_labels(none);
    }
    folder_write(&folder, "labels.txt", "one\ntwo\n");
    write_hub("{'model_type': 'vit', 'id2label': {'0': 'a', '1': 'b'}}");
    static const char *const own[] = {"one", "two", NULL};
    expect_labels(own);
    cr_expect_str_eq(config->labels.name, "labels.txt");
}

Test(hub_folder, several_classes_of_an_image_are_told)
{
    write_hub("{'model_type': 'vit', 'problem_type': 'multi_label_classification'}");
    load();
    cr_expect_eq(config->activation, CONVOY_ACTIVATION_SIGMOID);
    write_hub("{'model_type': 'vit', 'problem_type': 'single_label_classification'}");
    load();
    cr_expect_eq(config->activation, CONVOY_ACTIVATION_AUTO);
}

Test(hub_folder, timm_says_all_in_one_file)
{
    static const char *const labels[] = {"tench", "n02", "great white", NULL};
    struct convoy_resizing resizing;
    write_quoted(
        "config.json",
        "{'architecture': 'resnet', 'pretrained_cfg': {'input_size': [3, 288, 288], 'interpolation': "
        "'bilinear', 'crop_pct': 0.95, 'crop_mode': 'center', 'mean': [0.1, 0.2, 0.3], 'std': [1, 2, 3]}, "
        "'label_names': ['n01', 'n02', 'n03'], 'label_descriptions': {'n03': 'great white', 'n04': 'x', "
        "'n01': 'tench', 'n02': 5}}");
    expect_labels(labels);
    const struct convoy_model_input *input = &config->input;
    convoy_model_input_resizing(input, 288, 288, &resizing);
    cr_expect(resizing.resize == CONVOY_RESIZE_CROP && resizing.cover_width == 303 && !resizing.cuts_down);
    cr_expect(input->height == 288 && input->width == 288 && input->normalises);
    cr_expect(input->mean[1] == 0.2 && input->std[2] == 3 && input->std_count == 3);
    cr_expect_eq(input->interpolation, CONVOY_INTERPOLATION_BILINEAR);

    write_quoted("config.json", "{'pretrained_cfg': {'crop_mode': 'squash'}}");
    load();
    convoy_model_input_resizing(&config->input, 224, 224, &resizing);
    cr_expect(resizing.resize == CONVOY_RESIZE_STRETCH && resizing.cover_width == 256);
    cr_expect(config->input.mean[0] == 0.485 && config->input.height == 0);
    cr_expect_eq(config->input.interpolation, CONVOY_INTERPOLATION_BICUBIC);

    write_quoted("config.json", "{'pretrained_cfg': {'crop_mode': 'border'}}");
    refused(-EINVAL, "pretrained_cfg.crop_mode must be \"center\" or \"squash\"");
}
