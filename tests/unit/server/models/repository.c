#include "server/models/repository.h"

#include "tests/unit/folder.h"

static struct convoy_error error;
static struct folder folder;
static struct convoy_repository repository;

static void open_folder(void)
{
    folder = folder_make();
}

static void close_folder(void)
{
    convoy_repository_free(&repository);
    folder_remove(&folder);
}

TestSuite(repository, .init = open_folder, .fini = close_folder);

static void scan(void)
{
    cr_assert_eq(convoy_repository_read(folder.path, &repository, &error), 0, "%s", error.message);
}

static void add(const char *name)
{
    folder_write(&folder, name, "not looked at");
}

/* The level of the note that speaks of what; -1 when there is none. */
static int noted(const char *what)
{
    for (uint32_t i = 0; i < repository.note_count; i++) {
        if (strstr(repository.notes[i].text, what) != NULL)
            return (int)repository.notes[i].level;
    }
    return -1;
}

Test(repository, models_are_sorted_by_name_and_number)
{
    add("resnet/10/model.onnx");
    add("resnet/9/model.onnx");
    add("resnet/999999999/model.onnx");
    add("alex.net_v-2/1/model.onnx");
    add("Zoo/3/model.onnx");
    scan();
    static const char *const expected[][2] = {
        {"Zoo", "3"}, {"alex.net_v-2", "1"}, {"resnet", "9"}, {"resnet", "10"}, {"resnet", "999999999"}};
    cr_assert_eq(repository.entry_count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        const struct convoy_repository_entry *entry = &repository.entries[i];
        char part[200];
        cr_assert_str_eq(entry->name, expected[i][0]);
        cr_assert_str_eq(entry->version, expected[i][1]);
        cr_assert_eq(entry->number, strtoul(expected[i][1], NULL, 10));
        cr_assert_str_eq(entry->folder, folder_path(&folder, entry->name));
        snprintf(part, sizeof part, "%s/%s/model.onnx", entry->name, entry->version);
        cr_assert_str_eq(entry->path, folder_path(&folder, part));
        cr_assert_null(entry->problem);
    }
    cr_assert_eq(repository.note_count, 0);
}

Test(repository, what_is_no_model_is_passed_over_quietly)
{
    add("train.py");
    add("samples/ship.jpg");
    add("__pycache__/train.pyc");
    add(".git/1/model.onnx");
    add("good/1/model.onnx");
    add("good/README.md");
    add("good/.cache/model.onnx");
    add("good/plots/loss.png");
    scan();
    cr_assert_eq(repository.entry_count, 1);
    for (uint32_t i = 0; i < repository.note_count; i++)
        cr_assert_eq(repository.notes[i].level, CONVOY_LOG_DEBUG, "%s", repository.notes[i].text);
    cr_assert_eq(noted("train.py is no folder"), CONVOY_LOG_DEBUG);
    cr_assert_eq(noted("samples holds no version"), CONVOY_LOG_DEBUG);
    cr_assert_eq(noted(".git"), -1);
}

/* As they come from the Hugging Face hub, or from a user who has one version. */
Test(repository, a_folder_without_versions_holds_version_1)
{
    add("flat/model.onnx");
    add("flat/model.onnx_data");
    add("flat/model_fp16.onnx");
    add("flat/pytorch_model.bin");
    add("flat/config.json");
    add("hub/onnx/model.onnx");
    add("hub/onnx/model_quantized.onnx");
    add("hub/config.json");
    add("both/onnx/model.onnx");
    add("both/2/model.onnx");
    add("bad name/model.onnx");
    add("onnx/1/model.onnx"); /* a model's name */
    scan();
    static const char *const paths[] = {"both/2/model.onnx", "flat/model.onnx", "hub/onnx/model.onnx",
                                        "onnx/1/model.onnx"};
    cr_assert_eq(repository.entry_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_str_eq(repository.entries[i].path, folder_path(&folder, paths[i]));
        cr_assert_str_eq(repository.entries[i].version, i == 0 ? "2" : "1");
        cr_assert_str_eq(repository.entries[i].folder, folder_path(&folder, repository.entries[i].name));
        cr_assert_null(repository.entries[i].problem);
    }
    cr_assert_eq(repository.entries[1].bytes, 2 * strlen("not looked at"));
    cr_assert_eq(repository.entries[2].bytes, strlen("not looked at"));
    cr_assert_eq(noted("both/onnx is passed over"), CONVOY_LOG_WARNING);
    cr_assert_eq(noted("bad name is passed over"), CONVOY_LOG_WARNING);
    cr_assert_eq(repository.note_count, 2);
}

Test(repository, a_change_beside_an_unversioned_model_changes_its_stamp)
{
    static const char *const beside[] = {"m/preprocessor_config.json", "m/onnx/model.onnx_data"};
    uint64_t stamp = 0;
    add("m/onnx/model.onnx");
    for (int i = 0; i < 3; i++) {
        scan();
        cr_assert_eq(repository.entry_count, 1);
        cr_assert_neq(repository.entries[0].stamp, stamp);
        stamp = repository.entries[0].stamp;
        convoy_repository_free(&repository);
        if (i < 2)
            add(beside[i]);
    }
}

Test(repository, mistakes_are_warned_of)
{
    add("quantized/onnx/model_q4.onnx");
    add("letter/v1/model.onnx");
    add("zero/0/model.onnx");
    add("leading/01/model.onnx");
    add("long/1234567890/model.onnx");
    add("bad name/1/model.onnx");
    scan();
    cr_assert_eq(repository.entry_count, 0);
    cr_assert_eq(
        noted("quantized/onnx is passed over: it holds no model.onnx; if model_q4.onnx is the model, "
              "rename it"),
        CONVOY_LOG_WARNING);
    cr_assert_eq(noted("letter/v1 is passed over"), CONVOY_LOG_WARNING);
    cr_assert_eq(noted("zero/0 is passed over"), CONVOY_LOG_WARNING);
    cr_assert_eq(noted("leading/01 is passed over"), CONVOY_LOG_WARNING);
    cr_assert_eq(noted("long/1234567890 is passed over"), CONVOY_LOG_WARNING);
    cr_assert_eq(noted("bad name is passed over"), CONVOY_LOG_WARNING);
    cr_assert_eq(repository.note_count, 6);
}

Test(repository, where_a_model_belongs_is_said)
{
    add("resnet50.onnx");
    add("model.onnx");
    add("flat/net.onnx");
    add("1/model.onnx");
    add("good/1/model.onnx");
    add("other/1/net.onnx");
    add("other/2/.hidden.onnx");
    add("other/3/.onnx");
    scan();
    char text[400];
    snprintf(text, sizeof text,
             "resnet50.onnx is passed over: a model lies in folders named by its name and "
             "version; move it to %s/resnet50/1/model.onnx",
             folder.path);
    cr_assert_eq(noted(text), CONVOY_LOG_WARNING);
    snprintf(text, sizeof text, "move it to %s/NAME/1/model.onnx", folder.path);
    cr_assert_eq(noted(text), CONVOY_LOG_WARNING);
    cr_assert_eq(noted("flat/net.onnx is passed over"), CONVOY_LOG_WARNING);
    snprintf(text, sizeof text, "%s/1/model.onnx is passed over: %s looks like a single model", folder.path,
             folder.path);
    cr_assert_eq(noted(text), CONVOY_LOG_WARNING);
    cr_assert_eq(repository.note_count, 4);
    cr_assert_eq(repository.entry_count, 4);
    cr_assert_not_null(
        strstr(repository.entries[1].problem, "holds no model.onnx: if net.onnx is the model, rename it"));
    cr_assert_str_eq(strstr(repository.entries[2].problem, "holds"), "holds no model.onnx");
    cr_assert_str_eq(strstr(repository.entries[3].problem, "holds"), "holds no model.onnx");
}

/* The sentence for a models folder that cannot be read. */
static const char *refusal(const char *models)
{
    cr_assert_lt(convoy_repository_read(models, &repository, &error), 0);
    return error.message;
}

Test(repository, a_folder_of_models_that_is_not_there_is_asked_for)
{
    char here[300], text[600];
    cr_assert_eq(chdir(folder.path), 0);
    cr_assert_not_null(getcwd(here, sizeof here));
    snprintf(text, sizeof text,
             "there is no models folder none in %s: create it and put each model at "
             "none/NAME/1/model.onnx, or name another folder with --models",
             here);
    cr_assert_str_eq(refusal("none"), text);
    cr_assert_str_eq(refusal("/nowhere/models"),
                     "there is no models folder /nowhere/models: create it and put each model at "
                     "/nowhere/models/NAME/1/model.onnx, or name another folder with --models");
    add("file");
    cr_assert_not_null(strstr(refusal("file"), "file is a file: name the folder in which models lie"));
}

Test(repository, a_folder_of_models_that_is_forbidden_names_the_user)
{
    cr_assert_eq(mkdir(folder_path(&folder, "secret"), 0700), 0);
    if (geteuid() == 0 && (chmod(folder.path, 0755) != 0 || seteuid(4711) != 0))
        cr_skip("the test cannot become another user");
    if (geteuid() != 4711)
        cr_assert_eq(chmod(folder_path(&folder, "secret"), 0), 0);
    char text[100];
    snprintf(text, sizeof text, "Permission denied; this process runs as user %u, who", (unsigned)geteuid());
    cr_assert_not_null(strstr(refusal(folder_path(&folder, "secret")), text), "%s", error.message);
    if (geteuid() == 4711)
        cr_assert_eq(seteuid(0), 0);
}

Test(repository, a_version_without_its_model_is_an_entry_with_a_problem)
{
    folder_make_way(&folder, "m/1/x");
    folder_make_way(&folder, "m/2/model.onnx/x");
    add("m/3/model.onnx");
    cr_assert_eq(symlink("nowhere", folder_path(&folder, "m/4")), 0); /* no folder: no version */
    cr_assert_eq(symlink("3", folder_path(&folder, "m/5")), 0);
    cr_assert_eq(mkdir(folder_path(&folder, "m/6"), 0700), 0);
    cr_assert_eq(symlink("model.onnx", folder_path(&folder, "m/6/model.onnx")), 0); /* turns in a circle */
    scan();
    cr_assert_eq(repository.entry_count, 5);
    cr_assert_not_null(strstr(repository.entries[0].problem, "m/1 holds no model.onnx"));
    cr_assert_not_null(strstr(repository.entries[1].problem, "m/2/model.onnx is not a regular file"));
    cr_assert_null(repository.entries[2].problem);
    cr_assert_str_eq(repository.entries[3].version, "5");
    cr_assert_null(repository.entries[3].problem);
    cr_assert_not_null(strstr(repository.entries[4].problem, "m/6/model.onnx cannot be reached"));
}

Test(repository, a_model_file_is_never_opened)
{
    folder_make_way(&folder, "m/1/x");
    cr_assert_eq(symlink("/dev/null", folder_path(&folder, "m/1/model.onnx")), 0);
    folder_make_way(&folder, "n/1/x");
    cr_assert_eq(mkfifo(folder_path(&folder, "n/1/model.onnx"), 0600), 0);
    scan(); /* opening the FIFO would wait for ever */
    cr_assert_eq(repository.entry_count, 2);
    cr_assert_not_null(repository.entries[0].problem);
    cr_assert_not_null(repository.entries[1].problem);
}

Test(repository, an_empty_folder_is_no_error_and_a_missing_one_is)
{
    scan();
    cr_assert_eq(repository.entry_count, 0);
    const char *none = folder_path(&folder, "none");
    cr_assert_eq(convoy_repository_read(none, &repository, &error), -ENOENT);
    assert_says(error, none);
    assert_says(error, "there is no models folder");
    add("file");
    cr_assert_eq(convoy_repository_read(folder_path(&folder, "file"), &repository, &error), -ENOTDIR);
}

Test(repository, an_unreadable_folder_is_a_warning)
{
    uid_t user = geteuid();
    add("m/1/model.onnx");
    add("n/1/model.onnx");
    cr_assert_eq(chmod(folder_path(&folder, "m"), 0), 0);
    cr_assert_eq(chmod(folder_path(&folder, "n"), 0755), 0);
    cr_assert_eq(chmod(folder_path(&folder, "n/1"), 0), 0);
    cr_assert_eq(chmod(folder.path, 0755), 0);
    if (user == 0)
        cr_assert_eq(seteuid(65534), 0, "root reads every folder, so this part runs as another user");
    scan();
    if (user == 0)
        cr_assert_eq(seteuid(user), 0);
    cr_assert_eq(noted("m cannot be read"), CONVOY_LOG_WARNING);
    cr_assert_eq(repository.entry_count, 1);
    cr_assert_not_null(strstr(repository.entries[0].problem, "cannot be reached: Permission denied"));
    cr_assert_eq(chmod(folder_path(&folder, "m"), 0700), 0);
    cr_assert_eq(chmod(folder_path(&folder, "n/1"), 0700), 0);
}

Test(repository, many_models_and_a_slash_at_the_end)
{
    char name[80];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "m%02d/%d/model.onnx", i, i + 1);
        add(name);
        snprintf(name, sizeof name, "note%02d", i);
        add(name);
    }
    snprintf(name, sizeof name, "%s//", folder.path);
    cr_assert_eq(convoy_repository_read(name, &repository, &error), 0);
    cr_assert_eq(repository.entry_count, 40);
    cr_assert_eq(repository.note_count, 40);
    cr_assert_str_eq(repository.entries[7].folder, folder_path(&folder, "m07"));
}
