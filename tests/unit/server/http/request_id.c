/* Request ids: which of a client are kept, and those that are made. */
#include "server/http/request_id.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static bool keep(const char *value)
{
    char id[CONVOY_REQUEST_ID_BYTES] = "untouched";
    bool kept = convoy_request_id_keep(value, strlen(value), id);

    cr_assert_str_eq(id, kept ? value : "untouched");
    return kept;
}

Test(request_id, keeps_what_is_safe)
{
    char longest[66];

    cr_assert(keep("a"));
    cr_assert(keep("Trace_01.-xyzXYZ"));
    memset(longest, 'x', sizeof longest);
    longest[64] = '\0';
    cr_assert(keep(longest));
    longest[64] = 'x';
    longest[65] = '\0';
    cr_assert_not(keep(longest));
}

Test(request_id, refuses_what_could_forge_a_header_or_a_log_line)
{
    char id[CONVOY_REQUEST_ID_BYTES];

    cr_assert_not(keep(""));
    cr_assert_not(keep("a b"));
    cr_assert_not(keep("a\r\nSet-Cookie: x"));
    cr_assert_not(keep("a\"b"));
    cr_assert_not(keep("a=b"));
    cr_assert_not(keep("\xC3\xA4"));
    cr_assert_not(convoy_request_id_keep("a\0b", 3, id));
    cr_assert_not(convoy_request_id_keep(NULL, 0, id));
}

#define IDS 20000

static void *make_ids(void *context)
{
    char(*ids)[CONVOY_REQUEST_ID_BYTES] = context;

    for (int i = 0; i < IDS; i++)
        convoy_request_id_make(ids[i]);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

Test(request_id, makes_different_ones_in_all_threads)
{
    static char ids[2 * IDS][CONVOY_REQUEST_ID_BYTES];
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, make_ids, ids), 0);
    make_ids(ids + IDS);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2 * IDS; i++) {
        cr_assert_eq(strlen(ids[i]), 32);
        cr_assert_eq(strspn(ids[i], "0123456789abcdef"), 32);
    }
    qsort(ids, 2 * IDS, sizeof ids[0], compare);
    for (int i = 1; i < 2 * IDS; i++)
        cr_assert_str_neq(ids[i - 1], ids[i]);
}
