/* convoy-worker: owns one device under a front, or checks a model. */
#include "engine/worker/check.h"
#include "engine/worker/serve.h"

#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "convoy-worker is started by convoyd; by hand it is of use to check a model.\n"
    "\n"
    "  convoy-worker --check MODEL.onnx [--backend auto|cpu|cuda|null]\n"
    "      [--layout auto|nchw|nhwc] [--height PIXELS] [--width PIXELS]\n"
    "      Loads the model and prints one JSON line: its shapes and layers, or the reason why it\n"
    "      cannot be served. Exit status 0 if it can. The last three are what the model's\n"
    "      config.json says of its input.\n"
    "  convoy-worker --serve --backend NAME --device INDEX --streams N [--cache-dir DIR]\n"
    "      [--tune on|off|force] [--sandbox on|off] [--confine-files auto|on|off]\n"
    "      [--read FOLDER]... [--user UID:GID[,GID...]] [--files on|off] [--canary-ms MS]\n"
    "      [--orphan-ms MS] [--spare]\n"
    "      How convoyd starts it, with the channel's descriptors.\n"
    "  convoy-worker --version\n";

static const struct option options[] = {{"check", required_argument, NULL, 'c'},
                                        {"serve", no_argument, NULL, 's'},
                                        {"backend", required_argument, NULL, 'b'},
                                        {"device", required_argument, NULL, 'd'},
                                        {"streams", required_argument, NULL, 'n'},
                                        {"version", no_argument, NULL, 'v'},
                                        {"cache-dir", required_argument, NULL, 'k'},
                                        {"tune", required_argument, NULL, 't'},
                                        {"sandbox", required_argument, NULL, 'z'},
                                        {"confine-files", required_argument, NULL, 'g'},
                                        {"read", required_argument, NULL, 'r'},
                                        {"user", required_argument, NULL, 'u'},
                                        {"files", required_argument, NULL, 'f'},
                                        {"canary-ms", required_argument, NULL, 'i'},
                                        {"orphan-ms", required_argument, NULL, 'o'},
                                        {"spare", no_argument, NULL, 'w'},
                                        {"layout", required_argument, NULL, 'l'},
                                        {"height", required_argument, NULL, 'y'},
                                        {"width", required_argument, NULL, 'x'},
                                        {"help", no_argument, NULL, 'h'},
                                        {0}};

static const char *const tunings[] = {
    [CONVOY_TUNING_OFF] = "off", [CONVOY_TUNING_ON] = "on", [CONVOY_TUNING_FORCE] = "force"};

static int tuning_of(const char *name)
{
    for (int i = 0; i < (int)(sizeof tunings / sizeof tunings[0]); i++)
        if (strcmp(tunings[i], name) == 0)
            return i;
    return -1;
}

static int usage_error(void)
{
    fputs(usage, stderr);
    return CONVOY_EXIT_USAGE;
}

#define MOST_DEVICES 1024 /* and streams */
#define MOST_PIXELS  65535
#define MOST_MS      3600000

/* 1, 0, or -1 when text is neither. */
static int on_or_off(const char *text)
{
    return strcmp(text, "on") == 0 ? 1 : strcmp(text, "off") == 0 ? 0 : -1;
}

/* A value of enum convoy_confine_files; -1 when text is none. */
static int confine_files_of(const char *text)
{
    for (int i = 0; convoy_confine_files_texts[i] != NULL; i++)
        if (strcmp(convoy_confine_files_texts[i], text) == 0)
            return i;
    return -1;
}

/* False when there are too many. */
static bool add_folder(struct convoy_worker_folders *folders, const char *folder)
{
    if (folders->count == CONVOY_MOST_FOLDERS)
        return false;
    folders->read[folders->count++] = folder;
    return true;
}

/* A decimal number up to most; -1 when text is none. */
static long small_number(const char *text, long most)
{
    char *end;
    long value = strtol(text, &end, 10);
    return *text != '\0' && *end == '\0' && value >= 0 && value <= most ? value : -1;
}

/* Blocks of 128 KiB and more have pages of their own, which go back to the kernel when they are freed. By
 * default malloc keeps what is smaller than the largest block that was freed so far, the file of a model:
 * then the places where the next ones fall decide how much the worker takes. With the models that ship it
 * took 100 MB after 1,000 requests, or 79, by chance; so always 79. */
static void give_back_what_is_freed(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 128 << 10);
}

int main(int argc, char **argv)
{
    give_back_what_is_freed();
    const char *backend = "auto", *check = NULL;
    const char *cache_dir = NULL;
    long device = 0, streams = 1, canary_ms = 0, orphan_ms = 0;
    struct convoy_worker_check_input input = {0};
    struct convoy_worker_confinement confinement = {0};
    bool spare = false, sound = true;
    int option, serve = 0, tune = CONVOY_TUNING_OFF, sandbox = 1, files = 1, confine = CONVOY_FILES_AUTO;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            check = optarg;
            break;
        case 's':
            serve = 1;
            break;
        case 'b':
            backend = optarg;
            break;
        case 'd':
            device = small_number(optarg, MOST_DEVICES);
            break;
        case 'n':
            streams = small_number(optarg, MOST_DEVICES);
            break;
        case 'k':
            cache_dir = optarg;
            break;
        case 't':
            tune = tuning_of(optarg);
            break;
        case 'z':
            sandbox = on_or_off(optarg);
            break;
        case 'g':
            confine = confine_files_of(optarg);
            break;
        case 'r':
            sound = sound && add_folder(&confinement.folders, optarg);
            break;
        case 'u':
            confinement.user = optarg;
            break;
        case 'f':
            files = on_or_off(optarg);
            break;
        case 'i':
            canary_ms = small_number(optarg, MOST_MS);
            break;
        case 'o':
            orphan_ms = small_number(optarg, MOST_MS);
            break;
        case 'w':
            spare = true;
            break;
        case 'l':
            input.layout = optarg;
            break;
        case 'y':
            input.height = small_number(optarg, MOST_PIXELS);
            break;
        case 'x':
            input.width = small_number(optarg, MOST_PIXELS);
            break;
        case 'v':
            puts("convoy-worker " CONVOY_VERSION);
            return 0;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            return usage_error();
        }
    }
    if (optind != argc || device < 0 || streams < 1 || tune < 0 || sandbox < 0 || files < 0 || confine < 0 ||
        !sound || canary_ms < 0 || orphan_ms < 0 || input.height < 0 || input.width < 0 ||
        (check != NULL) == (serve != 0))
        return usage_error();
    confinement.sandbox = sandbox == 1;
    confinement.files = (enum convoy_confine_files)confine;
    confinement.folders.write = cache_dir;
    if (check != NULL)
        return convoy_worker_check(backend, check, &input, &confinement);
    struct convoy_open_options options = {
        .streams = (uint32_t)streams, .tune = (enum convoy_tuning)tune, .pixels_only = files == 0};
    return convoy_worker_serve(backend, (uint32_t)device, &confinement, (uint32_t)canary_ms,
                               (uint32_t)orphan_ms, spare, &options);
}
