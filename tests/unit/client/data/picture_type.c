/* The type of a picture by its first bytes. */
#include <criterion/criterion.h>
#include <string.h>

#include "client/data/picture_type.h"

Test(client_picture_type, by_first_bytes)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *type;
    } cases[] = {{"\xFF\xD8\xFF\xE0", 4, "image/jpeg"},
                 {"\xFF\xD8", 2, NULL},
                 {"\x89PNG\r\n\x1A\n", 8, "image/png"},
                 {"\x89PNG\r\n\x1A\n", 7, NULL},
                 {"GIF87a", 6, "image/gif"},
                 {"GIF89a!", 7, "image/gif"},
                 {"GIF88a", 6, NULL},
                 {"RIFF\1\2\3\4WEBPVP8 ", 16, "image/webp"},
                 {"RIFF\1\2\3\4WEBPVP8 ", 11, NULL},
                 {"RIFF\1\2\3\4WAVEfmt ", 16, NULL},
                 {"<svg xmlns=\"http://www.w3.org/2000/svg\">", 30, NULL},
                 {"BM", 2, NULL},
                 {"", 0, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *type = client_picture_type(cases[i].bytes, cases[i].size);
        cr_expect(type == cases[i].type || (type && cases[i].type && strcmp(type, cases[i].type) == 0),
                  "case %zu: %s", i, type ? type : "none");
    }
    cr_expect_null(client_picture_type(NULL, 0));
}
