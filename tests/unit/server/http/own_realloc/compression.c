/* Compressed bodies: what is unpacked, what is refused, and how an answer's encoding is chosen. */
#include "server/http/compression.h"
#include "tests/unit/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define GZIP 31
#define ZLIB 15
#define BARE (-15)

struct bytes {
    uint8_t *at; /* malloc'd, of exactly that length: the address sanitizer sees a read past it */
    size_t length;
};

static struct convoy_error error;

static struct bytes packed(const void *in, size_t length, int window)
{
    z_stream stream = {.next_in = (Bytef *)in, .avail_in = (uInt)length};

    cr_assert_eq(deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    struct bytes bytes = {.length = deflateBound(&stream, length)};
    bytes.at = malloc(bytes.length);
    stream.next_out = bytes.at;
    stream.avail_out = (uInt)bytes.length;
    cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    bytes.length = stream.total_out;
    deflateEnd(&stream);
    bytes.at = realloc(bytes.at, bytes.length);
    return bytes;
}

static struct bytes joined(struct bytes a, const void *b, size_t b_length)
{
    struct bytes both = {malloc(a.length + b_length), a.length + b_length};

    if (a.length > 0)
        memcpy(both.at, a.at, a.length);
    memcpy(both.at + a.length, b, b_length);
    return both;
}

/* Text with some order and some disorder in it, the same each time. */
static struct bytes sample(size_t length)
{
    struct bytes bytes = {malloc(length > 0 ? length : 1), length};
    uint32_t state = 1;

    for (size_t i = 0; i < length; i++) {
        state = state * 1664525u + 1013904223u;
        bytes.at[i] = (state >> 29) == 0 ? (uint8_t)(state >> 16) : (uint8_t) "a body, "[i % 8];
    }
    return bytes;
}

/* Unpacks from a copy of exactly that length, into the result and out. */
static int unpack(const char *encoding, const uint8_t *in, size_t length, size_t most, struct bytes *out)
{
    uint8_t *copy = malloc(length);

    if (length > 0)
        memcpy(copy, in, length);
    error.message[0] = '\0';
    int code = convoy_decompress(encoding, copy, length, most, NULL, NULL, &out->at, &out->length, &error);
    free(copy);
    cr_assert_eq(code != 0, out->at == NULL);
    cr_assert_eq(code != 0, error.message[0] != '\0');
    return code;
}

static void assert_unpacks(const char *encoding, struct bytes in, size_t most, struct bytes expected)
{
    struct bytes out;

    cr_assert_eq(unpack(encoding, in.at, in.length, most, &out), 0, "%s: %s", encoding, error.message);
    cr_assert_eq(out.length, expected.length);
    cr_assert_eq(memcmp(out.at, expected.at, out.length), 0);
    free(out.at);
}

static void assert_refused(int code, const char *encoding, const uint8_t *in, size_t length, size_t most)
{
    struct bytes out;
    int got = unpack(encoding, in, length, most, &out);

    free(out.at);
    cr_assert_eq(got, code, "%d in place of %d", got, code);
}

Test(decompress, takes_gzip_zlib_and_bare_deflate)
{
    static const size_t lengths[] = {0, 1, 2, 100, 4095, 4096, 4097, 8192, 100000, 3000000};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct bytes plain = sample(lengths[i]);
        struct bytes gzip = packed(plain.at, plain.length, GZIP);
        struct bytes zlib = packed(plain.at, plain.length, ZLIB);
        struct bytes bare = packed(plain.at, plain.length, BARE);
        /* Exactly as much as may be, and as much as one likes. */
        for (int wide = 0; wide < 2; wide++) {
            size_t most = wide ? SIZE_MAX : plain.length;
            assert_unpacks("gzip", gzip, most, plain);
            assert_unpacks("deflate", zlib, most, plain);
            assert_unpacks("deflate", bare, most, plain);
        }
        free(plain.at), free(gzip.at), free(zlib.at), free(bare.at);
    }
}

Test(decompress, encodings_have_names)
{
    static const char *const known[] = {"gzip", "GZip", "x-gzip", " gzip\t"};
    static const char *const unknown[] = {"",           "identity", "br",     "zstd",
                                          "gzip, gzip", "gzip,",    "gzip x", "gzip, deflate",
                                          "gzip;",      "gzi",      "gzipp",  "compress"};
    struct bytes plain = sample(500);
    struct bytes gzip = packed(plain.at, plain.length, GZIP);
    struct bytes zlib = packed(plain.at, plain.length, ZLIB);

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_unpacks(known[i], gzip, 500, plain);
    assert_unpacks("Deflate", zlib, 500, plain);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_refused(-ENOTSUP, unknown[i], gzip.at, gzip.length, 500);
    assert_says(error, "compress");
    /* One does not pass for the other. */
    assert_refused(-EBADMSG, "gzip", zlib.at, zlib.length, 500);
    assert_refused(-EBADMSG, "deflate", gzip.at, gzip.length, 500);
    free(plain.at), free(gzip.at), free(zlib.at);
}

Test(decompress, one_byte_too_many_is_too_many)
{
    static const size_t lengths[] = {1, 4096, 4097, 5000, 100000};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct bytes plain = sample(lengths[i]);
        struct bytes gzip = packed(plain.at, plain.length, GZIP);
        assert_refused(-EMSGSIZE, "gzip", gzip.at, gzip.length, plain.length - 1);
        assert_refused(-EMSGSIZE, "gzip", gzip.at, gzip.length, 0);
        free(plain.at), free(gzip.at);
    }
    assert_says(error, "larger than 0 bytes");
}

/* The largest piece of memory that was asked for. */
static size_t largest;

extern void *__libc_realloc(void *block, size_t size);

/* In place of the C library's; the sanitizers bring their own, and go without this check. */
#ifndef __SANITIZE_ADDRESS__
void *realloc(void *block, size_t size);
__attribute__((visibility("default"))) void *realloc(void *block, size_t size)
{
    if (size > largest)
        largest = size;
    return __libc_realloc(block, size);
}
#endif

/* A thousandfold, which is about what deflate can do at most, and in a form that zlib unpacks at once. */
Test(decompress, a_bomb_takes_no_memory)
{
    size_t size = (size_t)32 << 20, most = 100000;
    uint8_t *zeros = calloc(1, size);
    struct bytes bombs[] = {packed(zeros, size, GZIP), packed(zeros, size, ZLIB), packed(zeros, size, BARE)};

    free(zeros);
    for (int i = 0; i < 3; i++) {
        cr_assert_lt(bombs[i].length, 50000);
        largest = 0;
        assert_refused(-EMSGSIZE, i == 0 ? "gzip" : "deflate", bombs[i].at, bombs[i].length, most);
        cr_assert_leq(largest, most);
        free(bombs[i].at);
    }
    /* Many small ones, each of which would do. */
    struct bytes plain = sample(1000);
    struct bytes one = packed(plain.at, plain.length, GZIP);
    struct bytes many = {NULL, 0};
    for (int i = 0; i < 200; i++) {
        struct bytes more = joined(many, one.at, one.length);
        free(many.at);
        many = more;
    }
    largest = 0;
    assert_refused(-EMSGSIZE, "gzip", many.at, many.length, most);
    cr_assert_leq(largest, most);
    free(plain.at), free(one.at), free(many.at);
}

/* Each of the ways of packing, cut after each of its bytes. */
Test(decompress, a_stream_that_is_cut_anywhere_is_refused)
{
    static const int windows[] = {GZIP, ZLIB, BARE};
    struct bytes plain = sample(3000);

    for (int i = 0; i < 3; i++) {
        struct bytes whole = packed(plain.at, plain.length, windows[i]);
        const char *encoding = i == 0 ? "gzip" : "deflate";
        for (size_t length = 0; length < whole.length; length++) {
            assert_refused(-EBADMSG, encoding, whole.at, length, 3000);
            assert_says(error, "cut off");
            assert_refused(-EBADMSG, encoding, whole.at, length, SIZE_MAX);
        }
        assert_unpacks(encoding, whole, 3000, plain);
        free(whole.at);
    }
    free(plain.at);
    struct bytes out;
    cr_assert_eq(convoy_decompress("gzip", NULL, 0, 10, NULL, NULL, &out.at, &out.length, &error), -EBADMSG);
    cr_assert_eq(convoy_decompress("deflate", NULL, 0, 10, NULL, NULL, &out.at, &out.length, &error),
                 -EBADMSG);
}

Test(decompress, members_follow_each_other)
{
    struct bytes plain = sample(2000), nothing = {plain.at, 0};
    struct bytes first = packed(plain.at, 700, GZIP), second = packed(plain.at + 700, 1300, GZIP);
    struct bytes empty = packed(plain.at, 0, GZIP);
    struct bytes both = joined(first, second.at, second.length);
    struct bytes four = joined(both, empty.at, empty.length);

    assert_unpacks("gzip", both, 2000, plain);
    assert_unpacks("gzip", four, 2000, plain);
    assert_unpacks("gzip", empty, 0, nothing);
    assert_refused(-EMSGSIZE, "gzip", both.at, both.length, 1999);
    for (size_t length = 0; length < both.length; length++)
        if (length != first.length)
            assert_refused(-EBADMSG, "gzip", both.at, length, 2000);
    /* Deflate has but one. */
    struct bytes zlib = packed(plain.at, 700, ZLIB);
    struct bytes twice = joined(zlib, zlib.at, zlib.length);
    assert_refused(-EBADMSG, "deflate", twice.at, twice.length, 2000);
    assert_says(error, "follows");
    free(plain.at), free(first.at), free(second.at), free(empty.at), free(both.at), free(four.at);
    free(zlib.at), free(twice.at);
}

Test(decompress, nothing_else_may_follow)
{
    static const int windows[] = {GZIP, ZLIB, BARE};
    static const char *const tails[] = {"x",        "\n",           "\x1f",
                                        "\x1f\x8b", "\x1f\x8b\x08", "\x1f\x8bxxxxxxxxxxxxx"};
    struct bytes plain = sample(300);

    for (int i = 0; i < 3; i++) {
        struct bytes whole = packed(plain.at, plain.length, windows[i]);
        for (size_t t = 0; t < sizeof tails / sizeof tails[0]; t++) {
            struct bytes more = joined(whole, tails[t], strlen(tails[t]));
            assert_refused(-EBADMSG, i == 0 ? "gzip" : "deflate", more.at, more.length, 300);
            free(more.at);
        }
        struct bytes more = joined(whole, "\0", 1);
        assert_refused(-EBADMSG, i == 0 ? "gzip" : "deflate", more.at, more.length, 300);
        free(more.at), free(whole.at);
    }
    free(plain.at);
}

/* Every bit of a stream with a checksum, but those of gzip's header that say nothing of the content: whether
 * it is text (bit 0 of byte 3), and the time, level and system in bytes 4 to 9. */
Test(decompress, a_flipped_bit_is_seen)
{
    struct bytes plain = sample(1500);
    size_t bits = 0, refused = 0;

    for (int i = 0; i < 2; i++) {
        struct bytes whole = packed(plain.at, plain.length, i == 0 ? GZIP : ZLIB);
        for (size_t bit = 0; bit < whole.length * 8; bit++) {
            if (i == 0 && (bit == 24 || (bit >= 32 && bit < 80)))
                continue;
            whole.at[bit / 8] ^= (uint8_t)(1u << bit % 8);
            struct bytes out;
            int code = unpack(i == 0 ? "gzip" : "deflate", whole.at, whole.length, 3000, &out);
            whole.at[bit / 8] ^= (uint8_t)(1u << bit % 8);
            /* A match may be taken from another place that reads the same. A length that is no more what it
             * was may run past the most that is taken. */
            bool same = code == 0 && out.length == plain.length && memcmp(out.at, plain.at, out.length) == 0;
            cr_assert(same || code == -EBADMSG || code == -EMSGSIZE, "bit %zu of %s: %d", bit,
                      i == 0 ? "gzip" : "zlib", code);
            free(out.at);
            refused += code != 0;
            bits++;
        }
        free(whole.at);
    }
    cr_assert_gt(refused, bits * 9 / 10);
    free(plain.at);
}

Test(decompress, a_stream_that_needs_a_dictionary_is_refused)
{
    uint8_t out[200];
    z_stream stream = {
        .next_in = (Bytef *)"a body, a body", .avail_in = 14, .next_out = out, .avail_out = 200};

    cr_assert_eq(deflateInit(&stream, 6), Z_OK);
    cr_assert_eq(deflateSetDictionary(&stream, (const Bytef *)"a body, ", 8), Z_OK);
    cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_refused(-EBADMSG, "deflate", out, stream.total_out, 100);
    assert_says(error, "dictionary");
    deflateEnd(&stream);
}

Test(compress, is_undone_by_unpacking)
{
    static const size_t lengths[] = {0, 1, 5000, 2000000};
    static const enum convoy_encoding encodings[] = {CONVOY_ENCODING_GZIP, CONVOY_ENCODING_DEFLATE};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int e = 0; e < 2; e++) {
            struct bytes plain = sample(lengths[i]), out;
            cr_assert_eq(convoy_compress(encodings[e], plain.at, plain.length, &out.at, &out.length), 0);
            if (lengths[i] >= 5000)
                cr_assert_lt(out.length, plain.length / 2);
            assert_unpacks(convoy_encoding_name(encodings[e]), out, plain.length, plain);
            /* What is called deflate has zlib's header, as the standard wants it. */
            cr_assert_eq(out.at[0], e == 0 ? 0x1f : 0x78);
            free(plain.at), free(out.at);
        }
}

Test(compress, takes_what_cannot_be_made_smaller_and_nothing_at_all)
{
    struct bytes noise = sample(100000), out;
    uint32_t state = 7;

    for (size_t i = 0; i < noise.length; i++) {
        state = state * 1664525u + 1013904223u;
        noise.at[i] = (uint8_t)(state >> 24);
    }
    cr_assert_eq(convoy_compress(CONVOY_ENCODING_GZIP, noise.at, noise.length, &out.at, &out.length), 0);
    cr_assert_geq(out.length, noise.length);
    assert_unpacks("gzip", out, noise.length, noise);
    free(out.at);
    cr_assert_eq(convoy_compress(CONVOY_ENCODING_DEFLATE, NULL, 0, &out.at, &out.length), 0);
    assert_unpacks("deflate", out, 0, (struct bytes){noise.at, 0});
    free(out.at);
    cr_assert_eq(convoy_compress(CONVOY_ENCODING_NONE, noise.at, 10, &out.at, &out.length), -EINVAL);
    cr_assert_null(out.at);
    free(noise.at);
}

Test(encoding, is_chosen_by_weight)
{
    static const struct {
        const char *accept;
        enum convoy_encoding chosen;
    } table[] = {
        {NULL, CONVOY_ENCODING_NONE},
        {"", CONVOY_ENCODING_NONE},
        {" ", CONVOY_ENCODING_NONE},
        {",,", CONVOY_ENCODING_NONE},
        {"br", CONVOY_ENCODING_NONE},
        {"identity", CONVOY_ENCODING_NONE},
        {"gzip", CONVOY_ENCODING_GZIP},
        {"GZIP", CONVOY_ENCODING_GZIP},
        {"x-gzip", CONVOY_ENCODING_GZIP},
        {"gzipx", CONVOY_ENCODING_NONE},
        {"deflate", CONVOY_ENCODING_DEFLATE},
        {"gzip, deflate", CONVOY_ENCODING_GZIP},
        {"deflate, gzip", CONVOY_ENCODING_GZIP},
        {"deflate,gzip;q=1.0,*;q=0.5", CONVOY_ENCODING_GZIP},
        {"gzip, deflate, br, zstd", CONVOY_ENCODING_GZIP},
        {"br;q=1.0, deflate;q=0.8, gzip;q=0.6", CONVOY_ENCODING_DEFLATE},
        {"gzip;q=0.501, deflate;q=0.5", CONVOY_ENCODING_GZIP},
        {"gzip;q=0.5, deflate;q=0.501", CONVOY_ENCODING_DEFLATE},
        {"gzip;q=0.001", CONVOY_ENCODING_GZIP},
        {"gzip;q=0", CONVOY_ENCODING_NONE},
        {"gzip;q=0.000", CONVOY_ENCODING_NONE},
        {"gzip;q=0, deflate", CONVOY_ENCODING_DEFLATE},
        {"deflate;q=0,gzip;q=0", CONVOY_ENCODING_NONE},
        {"*", CONVOY_ENCODING_GZIP},
        {"*;q=0", CONVOY_ENCODING_NONE},
        {"gzip;q=0, *", CONVOY_ENCODING_DEFLATE},
        {"*, gzip;q=0", CONVOY_ENCODING_DEFLATE},
        {"*;q=0, gzip", CONVOY_ENCODING_GZIP},
        {"*;q=0.5, deflate;q=0.4", CONVOY_ENCODING_GZIP},
        {"gzip;q=0.2, *;q=0.3", CONVOY_ENCODING_DEFLATE},
        /* Who names identity says how much it would rather have that. */
        {"identity;q=1, gzip;q=0.5", CONVOY_ENCODING_NONE},
        {"identity;q=0.5, gzip;q=0.5", CONVOY_ENCODING_GZIP},
        {"identity;q=0.5, gzip", CONVOY_ENCODING_GZIP},
        {"identity;q=0, deflate;q=0.1", CONVOY_ENCODING_DEFLATE},
        {"identity, *;q=0", CONVOY_ENCODING_NONE},
        /* Blanks where the standard allows them. */
        {"  gzip ; q=0 ,\tdeflate ;\tq=0.3 ", CONVOY_ENCODING_DEFLATE},
        {"gzip;Q=0", CONVOY_ENCODING_NONE},
        {",gzip,", CONVOY_ENCODING_GZIP},
        /* The first counts. */
        {"gzip;q=0, gzip", CONVOY_ENCODING_NONE},
        {"gzip, gzip;q=0", CONVOY_ENCODING_GZIP},
        /* Malformed members are passed over. */
        {"gzip;q=abc", CONVOY_ENCODING_NONE},
        {"gzip;q=", CONVOY_ENCODING_NONE},
        {"gzip;q=1.001", CONVOY_ENCODING_NONE},
        {"gzip;q=0.1234", CONVOY_ENCODING_NONE},
        {"gzip;q=2", CONVOY_ENCODING_NONE},
        {"gzip;q=-1", CONVOY_ENCODING_NONE},
        {"gzip;q=.5", CONVOY_ENCODING_NONE},
        {"gzip;q=1.", CONVOY_ENCODING_GZIP},
        {"gzip;", CONVOY_ENCODING_NONE},
        {"gzip;level=9", CONVOY_ENCODING_NONE},
        {"gzip;q=1;x=2", CONVOY_ENCODING_NONE},
        {"gzip deflate", CONVOY_ENCODING_NONE},
        {"gzip;q=x, deflate;q=0.1", CONVOY_ENCODING_DEFLATE},
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        cr_assert_eq(convoy_encoding_choose(table[i].accept), table[i].chosen, "%s", table[i].accept);
    cr_assert_null(convoy_encoding_name(CONVOY_ENCODING_NONE));
    cr_assert_str_eq(convoy_encoding_name(CONVOY_ENCODING_GZIP), "gzip");
    cr_assert_str_eq(convoy_encoding_name(CONVOY_ENCODING_DEFLATE), "deflate");
}

struct budget {
    size_t left, asked;
};

static bool take(void *context, size_t bytes)
{
    struct budget *budget = context;

    budget->asked++;
    if (bytes > budget->left)
        return false;
    budget->left -= bytes;
    return true;
}

/* Memory is asked for as it grows, not when all is unpacked. */
Test(compression, asks_before_it_takes_memory)
{
    struct bytes zeros = {calloc(1, 1000000), 1000000}, in = packed(zeros.at, zeros.length, GZIP);
    struct budget budget = {.left = 100000};
    uint8_t *out;
    size_t length;

    cr_assert_eq(convoy_decompress("gzip", in.at, in.length, 1 << 20, take, &budget, &out, &length, &error),
                 -EAGAIN);
    cr_assert_null(out);
    cr_assert_geq(budget.left, 100000 / 4, "%zu is left", budget.left);
    cr_assert_eq(budget.asked, 6, "4, 8, 16, 32, 64 and 128 KiB");
    budget = (struct budget){.left = 1 << 20};
    cr_assert_eq(convoy_decompress("gzip", in.at, in.length, 1 << 20, take, &budget, &out, &length, &error),
                 0);
    cr_assert_eq(length, zeros.length);
    cr_assert_eq(budget.left, 0, "all that it has is counted");
    free(out);
    free(in.at);
    free(zeros.at);
}

Test(compression, says_about_what_a_body_unpacks_to)
{
    struct bytes zeros = {calloc(1, 1000000), 1000000}, in = packed(zeros.at, zeros.length, GZIP);

    cr_assert_eq(convoy_unpacked_hint("gzip", in.at, in.length), 1000000);
    cr_assert_eq(convoy_unpacked_hint("deflate", in.at, in.length), in.length * 8);
    memset(in.at + in.length - 4, 0xff, 4);
    cr_assert_eq(convoy_unpacked_hint("gzip", in.at, in.length), in.length * 1032,
                 "no more than is possible");
    memset(in.at + in.length - 4, 0, 4);
    cr_assert_eq(convoy_unpacked_hint("x-gzip", in.at, in.length), in.length, "nor less than there is");
    cr_assert_eq(convoy_unpacked_hint("gzip", in.at, 3), 24);
    free(in.at);
    free(zeros.at);
}
