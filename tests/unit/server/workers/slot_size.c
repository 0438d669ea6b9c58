#include "server/workers/slot_size.h"

#include <criterion/criterion.h>
#include <string.h>

static struct convoy_model_shape shape_of(uint32_t channels, uint32_t side, uint32_t outputs)
{
    return (struct convoy_model_shape){
        .channels = channels, .height = side, .width = side, .outputs_per_row = outputs};
}

Test(slot_size, has_room_for_the_largest_batch_of_each_model)
{
    struct convoy_config *config = convoy_config_default();
    struct convoy_channel_size size;
    struct convoy_model_shape small = shape_of(3, 32, 10), wide = shape_of(1, 8, 1000);
    convoy_slot_size_begin(&size);
    convoy_slot_size_add(&size, &small, 256);
    convoy_slot_size_add(&size, &wide, 16);
    convoy_slot_size_end(&size, config);
    cr_assert_eq(size.slots, config->worker.slots);
    cr_assert_eq(size.input_bytes, 256 * 3072 * 4); /* in floats */
    cr_assert_eq(size.output_bytes, 16 * 4032);     /* 1000 floats, rounded to 64 bytes */
    convoy_config_free(config);
}

Test(slot_size, batches_of_floats_make_a_slot_larger_up_to_4_MiB)
{
    struct convoy_channel_size size;
    struct convoy_model_shape some = shape_of(3, 32, 10), large = shape_of(3, 224, 10);
    convoy_slot_size_begin(&size);
    convoy_slot_size_add(&size, &some, 1024);
    cr_assert_eq(size.input_bytes, 4096 * 1024);
    convoy_slot_size_add(&size, &large, 64);
    cr_assert_eq(size.input_bytes, 64 * 3 * 224 * 224);
}

Test(slot_size, one_float_row_fits_though_max_batch_is_1)
{
    struct convoy_config *config = convoy_config_default();
    struct convoy_channel_size size;
    struct convoy_model_shape shape = shape_of(3, 224, 1000);
    convoy_slot_size_begin(&size);
    convoy_slot_size_add(&size, &shape, 1);
    convoy_slot_size_end(&size, config);
    cr_assert_eq(size.input_bytes, 3 * 224 * 224 * 4);
    convoy_config_free(config);
}

Test(slot_size, a_model_whose_row_does_not_fit_is_told_both_sizes)
{
    struct convoy_config *config = convoy_config_default();
    struct convoy_channel_size size;
    struct convoy_error error = {""};
    struct convoy_model_shape huge = shape_of(3, 5000, 10), small = shape_of(3, 32, 10);
    convoy_slot_size_begin(&size);
    convoy_slot_size_add(&size, &huge, 256);
    convoy_slot_size_end(&size, config);
    cr_assert_eq(size.input_bytes, CONVOY_SLOT_MAX_BYTES);
    cr_assert_neq(convoy_slot_size_check(&size, &huge, &error), 0);
    cr_assert(strstr(error.message, "75000000") != NULL, "%s", error.message);
    cr_assert(strstr(error.message, "67108864") != NULL, "%s", error.message);
    cr_assert_eq(convoy_slot_size_check(&size, &small, &error), 0);
    config->worker.slot_bytes = 1024;
    convoy_slot_size_end(&size, config);
    cr_assert_neq(convoy_slot_size_check(&size, &small, &error), 0);
    convoy_config_free(config);
}
