/* The convoy program: finds the command and runs it. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "client/commands/bench_command.h"
#include "client/commands/classify.h"
#include "client/commands/command.h"
#include "client/commands/eval.h"
#include "client/commands/health.h"
#include "client/commands/key.h"
#include "client/commands/load.h"
#include "client/commands/models.h"
#include "client/commands/stats.h"
#include "client/commands/top.h"
#include "client/commands/verify.h"

struct client_command {
    const char *name;
    const char *purpose;
    int (*run)(int argc, char **argv);
};

static const struct client_command commands[] = {
    {"classify", "classify images: convoy classify cat.jpg", client_classify_command},
    {"models", "list the server's models", client_models_command},
    {"bench", "load a server with images and measure it: convoy bench models/samples", client_bench_command},
    {"eval", "measure a model's accuracy on labelled images: convoy eval photos/", client_eval_command},
    {"verify", "compare answers with recorded ones: convoy verify resnet50", client_verify_command},
    {"stats", "what the server counted, model by model: convoy stats", client_stats_command},
    {"top", "watch a server at work: convoy top", client_top_command},
    {"health", "say whether a server is ready, as an exit status: convoy health", client_health_command},
    {"load", "have a server load a model: convoy load cifar10-resnet", client_load_command},
    {"unload", "have a server give a model up: convoy unload cifar10-resnet", client_unload_command},
    {"key", "make a key for a server: convoy key camera-7 infer", client_key_command},
};

static void print_help(FILE *stream)
{
    fputs("Usage: convoy [--url URL] COMMAND [OPTION]... [FILE]...\n"
          "The client of convoyd, a server that says what images show.\n\nCommands:\n",
          stream);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(stream, "  %-9s  %s\n", commands[i].name, commands[i].purpose);
    fputs("\n`convoy COMMAND --help` explains a command; `convoy --version` says which convoy this is.\n"
          "All commands ask the server at --url URL, else at $CONVOY_URL, else at http://127.0.0.1:8080;\n"
          "--url may stand before the command too, every other option comes after it. A URL is "
          "http://HOST:PORT,\n"
          "https://HOST:PORT (--cacert, --cert, --key and --insecure say whom to trust) or unix:PATH, a "
          "socket.\n"
          "$CONVOY_KEY is the key that is sent, where it is set.\n"
          "\nFirst steps, with convoyd running (./run.sh starts one):\n"
          "  convoy models\n"
          "  convoy classify models/samples/ship.jpg\n",
          stream);
}

/* Moves a --url before the command behind it. Returns the command's place, argc when there is none,
 * or 0 when the URL is missing. */
static int move_url(int argc, char **argv)
{
    int place = 1;
    while (place < argc) {
        if (strcmp(argv[place], "--url") == 0)
            place += 2;
        else if (strncmp(argv[place], "--url=", strlen("--url=")) == 0)
            place++;
        else
            break;
    }
    if (place > argc)
        return 0;
    if (place == argc)
        return argc;
    char *command = argv[place];
    memmove(&argv[2], &argv[1], (size_t)(place - 1) * sizeof *argv);
    argv[1] = command;
    return 1;
}

int main(int argc, char **argv)
{
    /* Only to know whether the terminal shows UTF-8: numbers keep their decimal point. */
    setlocale(LC_CTYPE, "");
    int place = move_url(argc, argv);
    if (place == 0) {
        fputs("convoy: the option '--url' needs a value\n", stderr);
        return CLIENT_EXIT_USAGE;
    }
    if (place == argc) {
        print_help(stderr);
        return CLIENT_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CLIENT_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("convoy " CONVOY_VERSION);
        return CLIENT_EXIT_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    if (argv[1][0] == '-')
        fprintf(
            stderr,
            "convoy: '%s' comes before the command, where only --url may stand: convoy COMMAND [OPTION]...\n",
            argv[1]);
    else
        fprintf(stderr, "convoy: there is no command '%s'; `convoy --help` lists them\n", argv[1]);
    return CLIENT_EXIT_USAGE;
}
