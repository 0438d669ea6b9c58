/* `convoy key`: the line is what the daemon reads. */
#include "client/commands/key.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

Test(key, is_256_bits_in_hexadecimal)
{
    uint8_t random[CLIENT_KEY_RANDOM] = {0x00, 0x0f, 0xff};
    char text[CLIENT_KEY_TEXT];
    client_key_text(random, text);
    cr_assert_str_eq(text, "convoy-000fff0000000000000000000000000000000000000000000000000000000000");
}

Test(key, the_line_has_its_sha_256)
{
    char line[256];
    /* FIPS 180-4's example. */
    int length = client_key_line("camera-7", "infer,metrics", "abc", line, sizeof line);
    cr_assert_str_eq(line, "camera-7 infer,metrics "
                           "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    cr_assert_eq((size_t)length, strlen(line));
}
