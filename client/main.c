/* The convoy command: finds the command named first and hands over. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "client/command.h"

struct command {
    const char *name;
    const char *purpose;
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
    {"classify", "classify images: convoy classify cat.jpg", convoy_classify_command},
    {"models", "list the server's models", convoy_models_command},
    {"bench", "load a server with images and measure it: convoy bench models/samples", convoy_bench_command},
    {"eval", "measure a model's accuracy on labelled images: convoy eval photos/", convoy_eval_command},
    {"top", "watch a server at work: convoy top", convoy_top_command},
};

static void print_help(FILE *stream)
{
    fputs("Usage: convoy COMMAND [OPTION]... [FILE]...\n"
          "The client of convoyd, a server that says what images show.\n\nCommands:\n",
          stream);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(stream, "  %-9s  %s\n", commands[i].name, commands[i].purpose);
    fputs("\n`convoy COMMAND --help` explains a command; `convoy --version` says which convoy this is.\n"
          "All commands ask the server at --url URL, else at $CONVOY_URL, else at http://127.0.0.1:8080.\n"
          "\nFirst steps, with convoyd running (./run.sh starts one):\n"
          "  convoy models\n"
          "  convoy classify models/samples/ship.jpg\n",
          stream);
}

int main(int argc, char **argv)
{
    /* Only to know whether the terminal shows UTF-8: numbers keep their decimal point. */
    setlocale(LC_CTYPE, "");
    if (argc < 2) {
        print_help(stderr);
        return CONVOY_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CONVOY_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("convoy " CONVOY_VERSION);
        return CONVOY_EXIT_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "convoy: there is no command '%s'; `convoy --help` lists them\n", argv[1]);
    return CONVOY_EXIT_USAGE;
}
