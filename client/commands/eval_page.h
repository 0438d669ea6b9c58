/* The report of `convoy eval --report`: one HTML file that stands alone. */
#ifndef CONVOY_CLIENT_EVAL_PAGE_H
#define CONVOY_CLIENT_EVAL_PAGE_H

#include <stdio.h>

#include "client/commands/eval.h"

/* More classes do not fit a chart: the worst of them are shown. */
#define CLIENT_EVAL_PAGE_CLASSES    50
#define CLIENT_EVAL_PAGE_CONFUSIONS 50

struct client_eval_page {
    const struct client_eval_result *result;
    const char *set;    /* the path that was evaluated */
    const char *server; /* the server's name and version, "" where it does not tell */
    const char *date;
};

/* Writes the page. Texts may come from anywhere. Returns 0 or -ENOMEM; whether out took everything is the
 * caller's to check. */
int client_eval_page_write(FILE *out, const struct client_eval_page *page);

#endif
