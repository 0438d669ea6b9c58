#include "engine/base/utf8.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

/* Encodes code (up to 0x1FFFFF) in bytes bytes, right or not. */
static void encode(uint32_t code, size_t bytes, char out[4])
{
    static const unsigned char lead[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    for (size_t i = bytes; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(lead[bytes] | code);
}

static size_t shortest(uint32_t code)
{
    return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

Test(utf8, takes_every_character_and_no_other)
{
    for (uint32_t code = 0; code <= 0x1FFFFF; code++) {
        bool surrogate = code >= 0xD800 && code <= 0xDFFF;
        char text[4];
        size_t bytes = shortest(code);
        encode(code, bytes, text);
        size_t expected = surrogate || code > 0x10FFFF ? 0 : bytes;
        cr_assert_eq(convoy_utf8_character(text, bytes), expected, "U+%04X", code);
        for (size_t cut = 0; cut < bytes; cut++)
            cr_assert_eq(convoy_utf8_character(text, cut), 0, "U+%04X cut to %zu bytes", code, cut);
    }
}

Test(utf8, refuses_overlong_forms)
{
    for (uint32_t code = 0; code < 0x10000; code++) {
        for (size_t bytes = shortest(code) + 1; bytes <= 4; bytes++) {
            char text[4];
            encode(code, bytes, text);
            cr_assert_eq(convoy_utf8_character(text, bytes), 0, "U+%04X in %zu bytes", code, bytes);
        }
    }
}

Test(utf8, says_where_a_text_stops_being_utf8)
{
    size_t at = 99;
    cr_assert(convoy_utf8_valid("", 0, NULL));
    cr_assert(convoy_utf8_valid("k\xC3\xA4se", 5, &at));
    cr_assert_eq(at, 99);
    cr_assert_not(convoy_utf8_valid("k\xC3\xA4s\xFF", 5, &at));
    cr_assert_eq(at, 4);
    cr_assert_not(convoy_utf8_valid("k\xC3", 2, &at));
    cr_assert_eq(at, 1);
}
