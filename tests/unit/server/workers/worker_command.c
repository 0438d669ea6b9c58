/* What a worker is told of a model's pictures. */
#include "server/workers/worker_command.h"

#include "engine/base/jpeg_row.h"

#include <criterion/criterion.h>

static struct convoy_model_config config;
static struct convoy_model_record model = {.name = "a", .version = "1", .path = "/a", .config = &config};

static double number(const cJSON *load, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(load, "fitting"), key));
}

Test(worker_command, a_channel_says_which_outputs_are_in_use)
{
    const struct convoy_channel_size size = {.slots = 2, .input_bytes = 64, .output_bytes = 128};
    cJSON *channel = convoy_worker_command_channel(&size, 1);
    cr_assert_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(channel, "turn")), 1);
    cr_assert_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(channel, "output_bytes")), 128);
    cJSON_Delete(channel);
}

Test(worker_command, a_load_says_how_devices_fit_pictures)
{
    convoy_model_input_default(&config.input);
    config.input.resize = CONVOY_RESIZE_CROP;
    config.input.interpolation = CONVOY_INTERPOLATION_LANCZOS;
    config.input.crop_fraction = 0.875;
    config.input.color = CONVOY_COLOR_BGR;
    config.input.cuts_down = true;
    cJSON *load = convoy_worker_command_load(&model, true, CONVOY_LOAD_FILES);
    cr_assert_not_null(load);
    cr_expect_eq(number(load, "kind"), CONVOY_FITTING_CROP);
    cr_expect_eq(number(load, "filter"), CONVOY_FILTER_LANCZOS);
    cr_expect_eq(number(load, "resize_to"), 0);
    cr_expect_eq(number(load, "crop_fraction"), 0.875);
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetObjectItem(load, "fitting"), "bgr")));
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetObjectItem(load, "fitting"), "cuts_down")));
    cJSON_Delete(load);

    config.input.resize = CONVOY_RESIZE_PAD;
    config.input.pad_color[0] = 1;
    config.input.pad_color[1] = 2.6;
    config.input.pad_color[2] = 255;
    config.input.pad_color_count = 3;
    load = convoy_worker_command_load(&model, false, CONVOY_LOAD_FILES);
    const cJSON *color = cJSON_GetObjectItem(cJSON_GetObjectItem(load, "fitting"), "color");
    cr_expect_eq(number(load, "kind"), CONVOY_FITTING_PAD);
    cr_expect_eq(cJSON_GetArrayItem(color, 0)->valuedouble, 1);
    cr_expect_eq(cJSON_GetArrayItem(color, 1)->valuedouble, 3);
    cr_expect_eq(cJSON_GetArrayItem(color, 2)->valuedouble, 255);
    cJSON_Delete(load);
}

Test(worker_command, a_front_that_decodes_itself_is_another_load)
{
    convoy_model_input_default(&config.input);
    cJSON *with = convoy_worker_command_load_kind(&model, CONVOY_LOAD_FILES);
    cJSON *without = convoy_worker_command_load_kind(&model, CONVOY_LOAD_NO_FILES);
    cr_expect_eq(number(with, "kind"), CONVOY_FITTING_STRETCH);
    cr_expect_eq(number(without, "kind"), CONVOY_FITTING_NONE);
    cr_expect_not(cJSON_Compare(with, without, true));
    cJSON_Delete(with);
    cJSON_Delete(without);
}

Test(worker_command, a_load_may_wait_for_the_decoder)
{
    convoy_model_input_default(&config.input);
    cJSON *without = convoy_worker_command_load(&model, false, CONVOY_LOAD_FILES);
    cJSON *with = convoy_worker_command_load(&model, false, CONVOY_LOAD_FILES_FIRST);
    cr_assert(with != NULL && without != NULL);
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItem(with, "decoder_first")));
    cr_expect_eq(number(with, "kind"), CONVOY_FITTING_STRETCH);
    cr_expect_not(cJSON_HasObjectItem(without, "decoder_first"), "workers of earlier builds were loaded so");
    cJSON_Delete(with);
    cJSON_Delete(without);
}
