/* To which workers JPEG files are given, and a decoder that kills them. */
#include "tests/unit/server/workers/own_process/supervisor_harness.h"

TestSuite(supervisor_files, .init = begin, .fini = end);

static void say_hello_with(int devices, const char *device, bool takes_files)
{
    char line[300];
    snprintf(line, sizeof line,
             "{\"type\":\"hello\",\"abi\":%d,\"device_count\":%d,\"streams\":2,\"backend\":\"cuda\","
             "\"device\":\"%s\",\"jpeg_jobs\":%d}",
             CONVOY_CHANNEL_ABI, devices, device, takes_files ? 4 : 0);
    say(line);
}

static void say_loaded_with(const struct convoy_model_record *model, const char *more)
{
    char line[300];
    snprintf(line, sizeof line,
             "{\"type\":\"loaded\",\"model\":%u,\"channels\":3,\"height\":2,\"width\":2,\"weight_bytes\":8,"
             "\"outputs\":[{\"name\":\"y\",\"elements\":2}]%s}",
             model->number, more);
    say(line);
}

Test(supervisor_files, a_model_takes_files_where_its_worker_says_so)
{
    struct convoy_model_record *model = add_model("a");
    load(model);
    say_hello_with(1, "cuda:0", true);
    say_loaded_with(model, ",\"takes_jpeg\":true");
    cr_assert_not(atomic_load(&model->takes_files), "not before it is served");
    say("{\"type\":\"attached\"}");
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
    cr_assert(atomic_load(&model->takes_files));
    cr_assert_geq(process->channel.size.input_bytes, 16u << 20, "slots have room for photographs");
    /* The next worker finds no decoder. */
    process->running = false;
    process->events->gone(process->context, process, "signal", "it is dead");
    until_started();
    cr_assert(atomic_load(&model->takes_files), "files wait for it");
    say_hello_with(1, "cuda:0", false);
    say_loaded_with(model, "");
    say("{\"type\":\"attached\"}");
    cr_assert_not(atomic_load(&model->takes_files));
}

Test(supervisor_files, all_devices_must_take_them)
{
    struct convoy_model_record *model = add_model("a");
    load(model);
    struct convoy_worker_process *first = process;
    say_hello_with(2, "cuda:0", true);
    struct convoy_worker_process *second = process;
    cr_assert_neq(first, second);
    process = first;
    say_loaded_with(model, ",\"takes_jpeg\":true");
    say("{\"type\":\"attached\"}");
    cr_assert(atomic_load(&model->takes_files), "so far one device has it");
    process = second;
    say_hello_with(2, "cuda:1", false);
    say_loaded_with(model, ",\"takes_jpeg\":false");
    say("{\"type\":\"attached\"}");
    cr_assert_not(atomic_load(&model->takes_files));
    first->running = false;
}

static void say_tuned_with(const struct convoy_model_record *model, const char *more)
{
    char line[300];
    snprintf(line, sizeof line, "{\"type\":\"tuned\",\"model\":%u,\"weight_bytes\":8,\"layers\":[]%s}",
             model->number, more);
    say(line);
}

Test(supervisor_files, a_model_takes_files_when_its_worker_is_prepared)
{
    struct convoy_model_record *model = add_model("a");
    load(model);
    say_hello_with(1, "cuda:0", true);
    say_loaded_with(model, ",\"takes_jpeg\":false");
    say("{\"type\":\"attached\"}");
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
    cr_assert_not(atomic_load(&model->takes_files));
    cr_assert_geq(process->channel.size.input_bytes, 16u << 20, "slots have room for photographs");
    say_tuned_with(model, ",\"takes_jpeg\":true");
    cr_assert(atomic_load(&model->takes_files));
    say_tuned_with(model, "");
    cr_assert(atomic_load(&model->takes_files), "it says nothing of them");
}

Test(supervisor_files, all_devices_must_be_prepared)
{
    struct convoy_model_record *model = add_model("a");
    load(model);
    struct convoy_worker_process *first = process;
    say_hello_with(2, "cuda:0", true);
    struct convoy_worker_process *second = process;
    for (int i = 0; i < 2; i++) {
        process = i == 0 ? first : second;
        if (i == 1)
            say_hello_with(2, "cuda:1", true);
        say_loaded_with(model, ",\"takes_jpeg\":false");
        say("{\"type\":\"attached\"}");
    }
    say_tuned_with(model, ",\"takes_jpeg\":true");
    cr_assert_not(atomic_load(&model->takes_files), "the other one is not");
    process = first;
    say_tuned_with(model, ",\"takes_jpeg\":true");
    cr_assert(atomic_load(&model->takes_files));
    first->running = second->running = false;
}

/* Nothing but the decoder is to blame, and the third worker does without. */
Test(supervisor_files, a_decoder_that_kills_its_workers_is_left_out)
{
    struct convoy_model_record *model = add_model("a"), *other = add_model("b");
    load(model);
    for (int deaths = 0; deaths < 2; deaths++) {
        say_hello_with(1, "cuda:0", true);
        cr_assert(loads_files, "%d deaths", deaths);
        say_loaded_with(model, ",\"takes_jpeg\":false");
        say("{\"type\":\"attached\"}");
        say("{\"type\":\"heartbeat\",\"phase\":\"running\",\"preparing\":true}");
        if (deaths == 0)
            load(other);
        say("{\"type\":\"loading\",\"model\":1}");
        process->running = false;
        process->events->gone(process->context, process, "signal", "it is dead");
        until_started();
    }
    say_hello_with(1, "cuda:0", true);
    cr_assert_not(loads_files);
    say_loaded_with(model, ",\"takes_jpeg\":false");
    say("{\"type\":\"attached\"}");
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
    say_loaded_with(other, ",\"takes_jpeg\":false");
    cr_assert_eq(other->state, CONVOY_MODEL_READY, "that it was being loaded is chance");
}

/* An image that is alone in flight at two deaths in a row would be answered as one that kills workers. */
Test(supervisor_files, an_image_is_not_to_blame_for_a_decoder_that_kills)
{
    struct convoy_model_record *model = add_model("a");
    const struct convoy_item *item = NULL;
    load(model);
    for (int deaths = 0; deaths < 2; deaths++) {
        say_hello_with(1, "cuda:0", true);
        say_loaded_with(model, ",\"takes_jpeg\":false");
        say("{\"type\":\"attached\"}");
        if (item == NULL)
            item = submit_item(model);
        say("{\"type\":\"heartbeat\",\"phase\":\"running\",\"preparing\":true}");
        process->running = false;
        process->events->gone(process->context, process, "signal", "it is dead");
        until_started();
        cr_assert_eq(answers, 0, "status %d after %d deaths", item->status, deaths + 1);
    }
}

Test(supervisor_files, no_file_goes_to_a_device_where_the_front_decodes)
{
    struct convoy_model_record *model = add_model("a");
    config->images.decoder = CONVOY_IMAGE_DECODER_CPU;
    load(model);
    say_hello_with(1, "cuda:0", true);
    say_loaded_with(model, ",\"takes_jpeg\":true");
    say("{\"type\":\"attached\"}");
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
    cr_assert_not(atomic_load(&model->takes_files));
    cr_assert_lt(process->channel.size.input_bytes, 16u << 20);
}
