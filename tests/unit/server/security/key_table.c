/* The file of keys. */
#include "server/security/key_table.h"
#include "server/config/role.h"
#include "server/security/gate.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SHA-256 of "abc" (FIPS 180-4's example) and of "abd". */
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ABD "a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9"

static int parse(const char *text, struct convoy_key_table **table, struct convoy_error *error)
{
    *table = NULL;
    return convoy_key_table_parse("keys", text, strlen(text), table, error);
}

Test(key_table, finds_a_key_by_what_it_hashes_to)
{
    struct convoy_key_table *table;
    struct convoy_error error;
    cr_assert_eq(parse("# who\n\n \t# more\ncamera infer sha256:" ABC
                       "\r\n\tboss.1\tadmin,metrics  sha256:" ABD,
                       &table, &error),
                 0, "%s", error.message);
    cr_assert_eq(convoy_key_table_count(table), 2);
    const struct convoy_key *key = convoy_key_table_find(table, "abc", 3);
    cr_assert_not_null(key);
    cr_assert_str_eq(key->name, "camera");
    cr_assert_eq(key->roles, CONVOY_ROLE_BIT(CONVOY_ROLE_INFER));
    key = convoy_key_table_find(table, "abd", 3);
    cr_assert_not_null(key);
    cr_assert_str_eq(key->name, "boss.1");
    cr_assert_eq(key->roles, CONVOY_ROLE_BIT(CONVOY_ROLE_ADMIN) | CONVOY_ROLE_BIT(CONVOY_ROLE_METRICS));
    cr_assert_null(convoy_key_table_find(table, "abe", 3));
    cr_assert_null(convoy_key_table_find(table, "abc", 2));
    cr_assert_null(convoy_key_table_find(table, "", 0));
    cr_assert_null(convoy_key_table_find(table, ABC, 64), "a digest opens nothing");
    convoy_key_table_free(table);
    cr_assert_eq(parse("", &table, &error), 0);
    cr_assert_null(convoy_key_table_find(table, "abc", 3));
    convoy_key_table_free(table);
}

Test(key_table, names_the_line_and_shows_nothing_of_it)
{
    static const struct {
        const char *text, *line;
    } cases[] = {
        {"a infer sha256:" ABC "\nb/secret infer sha256:" ABD, "line 2: a name"},
        {"a", "line 1: behind the name"},
        {"a infer", "line 1: behind the roles"},
        {"a root-secret sha256:" ABC, "line 1: behind the name"},
        {"a infer, sha256:" ABC, "line 1: behind the name"},
        {"a ,infer sha256:" ABC, "line 1: behind the name"},
        {"\n\na infer secret", "line 3: behind the roles"},
        {"a infer sha256:" ABC "0", "line 1: behind the roles"},
        {"a infer sha512:" ABC, "line 1: behind the roles"},
        {"a infer sha256:secret7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
         "line 1: behind the roles"},
        {"a infer sha256:" ABC " secret", "line 1: nothing may stand"},
        {"a infer sha256:" ABC "\na infer sha256:" ABD, "line 2: an earlier line has this name"},
        {"a infer sha256:" ABC "\nb infer sha256:" ABC, "line 2: an earlier line has this key"},
        {"0123456789012345678901234567890123456789012345678901234567890123x infer sha256:" ABC,
         "line 1: a name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct convoy_key_table *table;
        struct convoy_error error;
        cr_assert_eq(parse(cases[i].text, &table, &error), -EINVAL, "%s", cases[i].text);
        cr_assert_not_null(strstr(error.message, cases[i].line), "%s: %s", cases[i].text, error.message);
        cr_assert_null(strstr(error.message, "secret"), "%s", error.message);
    }
}

Test(key_table, a_line_and_a_file_have_a_limit)
{
    struct convoy_key_table *table;
    struct convoy_error error;
    char line[300];
    memset(line, '#', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    cr_assert_eq(parse(line, &table, &error), -EINVAL);
    char *text = malloc(1100 * 100), *at = text;
    for (int i = 0; i < 1024; i++)
        at += sprintf(at, "n%d infer sha256:%064x\n", i, i);
    cr_assert_eq(parse(text, &table, &error), 0, "%s", error.message);
    convoy_key_table_free(table);
    sprintf(at, "more infer sha256:" ABC);
    cr_assert_eq(parse(text, &table, &error), -EINVAL);
    cr_assert_not_null(strstr(error.message, "line 1025: there are more than 1024 keys"), "%s",
                       error.message);
    free(text);
}

Test(gate, reads_a_bearer_token)
{
    static const struct {
        const char *header, *key;
    } cases[] = {{"Bearer abc", "abc"}, {"bearer   abc", "abc"}, {"BEARER a b", "a b"}, {"Bearer", NULL},
                 {"Bearer ", NULL},     {"Bearerabc", NULL},     {"Basic abc", NULL},   {"", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t length;
        const char *key = convoy_gate_bearer(cases[i].header, &length);
        if (cases[i].key == NULL) {
            cr_assert_null(key, "%s", cases[i].header);
        } else {
            cr_assert_str_eq(key, cases[i].key);
            cr_assert_eq(length, strlen(cases[i].key));
        }
    }
}
