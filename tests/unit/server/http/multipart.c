/* multipart/form-data: boundaries, parts, and bodies that are out to harm. */
#include "server/http/multipart.h"

#include "engine/base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int boundary_of(const char *type, char *boundary)
{
    struct convoy_error error;

    return convoy_multipart_boundary(type, boundary, &error);
}

Test(multipart, finds_the_boundary)
{
    char boundary[CONVOY_BOUNDARY_MAX + 1];

    cr_assert_eq(boundary_of("multipart/form-data; boundary=abc", boundary), 0);
    cr_assert_str_eq(boundary, "abc");
    cr_assert_eq(boundary_of("Multipart/Form-Data;charset=utf-8;BOUNDARY=\"a b:c\"; x=y", boundary), 0);
    cr_assert_str_eq(boundary, "a b:c");
    cr_assert_eq(boundary_of("multipart/form-data; x=\"boundary=no\"; boundary=yes", boundary), 0);
    cr_assert_str_eq(boundary, "yes");
    cr_assert_eq(boundary_of("multipart/form-data; x=\"a;boundary=no\"; boundary=yes", boundary), 0);
    cr_assert_str_eq(boundary, "yes");
}

Test(multipart, other_types_are_no_form)
{
    char boundary[CONVOY_BOUNDARY_MAX + 1];

    cr_assert_eq(boundary_of(NULL, boundary), -ENOENT);
    cr_assert_eq(boundary_of("image/jpeg", boundary), -ENOENT);
    cr_assert_eq(boundary_of("multipart/form-database; boundary=a", boundary), -ENOENT);
    cr_assert_eq(boundary_of("multipart/mixed; boundary=a", boundary), -ENOENT);
}

Test(multipart, bad_boundaries_are_refused)
{
    char boundary[CONVOY_BOUNDARY_MAX + 1];
    char longest[200];

    cr_assert_eq(boundary_of("multipart/form-data", boundary), -EINVAL);
    cr_assert_eq(boundary_of("multipart/form-data; boundary=", boundary), -EINVAL);
    cr_assert_eq(boundary_of("multipart/form-data; boundary=\"\"", boundary), -EINVAL);
    cr_assert_eq(boundary_of("multipart/form-data; boundary=\"open", boundary), -EINVAL);
    cr_assert_eq(boundary_of("multipart/form-data; boundary=a{b", boundary), -EINVAL);
    cr_assert_eq(boundary_of("multipart/form-data; boundary=\"a;b\"", boundary), -EINVAL);
    cr_assert_eq(boundary_of("multipart/form-data; boundary=\"a \"", boundary), -EINVAL);
    int length = snprintf(longest, sizeof longest, "multipart/form-data; boundary=%070d", 0);
    cr_assert_eq(boundary_of(longest, boundary), 0);
    cr_assert_eq(strlen(boundary), CONVOY_BOUNDARY_MAX);
    longest[length] = '0';
    longest[length + 1] = '\0';
    cr_assert_eq(boundary_of(longest, boundary), -EINVAL);
}

/* Splits a copy that ends where its memory ends, so that the address sanitizer sees every over-read. */
static int split(const char *body, size_t length, struct convoy_part *parts, size_t most, size_t *count,
                 uint8_t **copy)
{
    struct convoy_error error;

    *copy = calloc(1, length > 0 ? length : 1);
    memcpy(*copy, body, length);
    return convoy_multipart_split(*copy, length, "XX", parts, most, count, &error);
}

static int count_of(const char *body, size_t length, size_t *count)
{
    uint8_t *copy;
    int code = split(body, length, NULL, 1000, count, &copy);

    free(copy);
    return code;
}

#define COUNT(body, count) count_of((body), sizeof(body) - 1, (count))

#define HEADER "Content-Disposition: form-data; name=\"a\"; filename=\"a.jpg\"\r\n\r\n"

Test(multipart, splits_parts_in_order)
{
    static const char body[] = "preamble\r\n--XX\r\n" HEADER "first\r\n--XX  \r\n" HEADER
                               "\r\n--XX\r\n" HEADER "th\r\n--XXird\r\n--XX--epilogue";
    struct convoy_part parts[3];
    uint8_t *copy;
    size_t count;

    cr_assert_eq(split(body, sizeof body - 1, parts, 3, &count, &copy), 0);
    cr_assert_eq(count, 3);
    cr_assert_eq(parts[0].length, 5);
    cr_assert_arr_eq(parts[0].bytes, "first", 5);
    cr_assert_eq(parts[1].length, 0);
    /* A line that only begins like the boundary belongs to the content. */
    cr_assert_eq(parts[2].length, 11);
    cr_assert_arr_eq(parts[2].bytes, "th\r\n--XXird", 11);
    free(copy);
}

Test(multipart, looks_at_no_more_parts_than_there_is_room_for)
{
    static const char body[] = "--XX\r\n" HEADER "1\r\n--XX\r\n" HEADER "2\r\n--XX\r\nno header";
    struct convoy_part parts[2] = {{NULL, 7}, {NULL, 7}};
    uint8_t *copy;
    size_t count;

    cr_assert_eq(split(body, sizeof body - 1, parts, 1, &count, &copy), 0);
    cr_assert_eq(count, 2, "one more than most");
    cr_assert_eq(parts[0].bytes[0], '1');
    cr_assert_eq(parts[1].length, 7, "the second place was not ours to write");
    free(copy);
}

Test(multipart, a_part_may_have_no_headers)
{
    static const char body[] = "--XX\r\n\r\ncontent\r\n--XX--";
    struct convoy_part part;
    uint8_t *copy;
    size_t count;

    cr_assert_eq(split(body, sizeof body - 1, &part, 1, &count, &copy), 0);
    cr_assert_eq(count, 1);
    cr_assert_eq(part.length, 7);
    cr_assert_arr_eq(part.bytes, "content", 7);
    free(copy);
}

Test(multipart, no_parts_at_all_is_well_formed)
{
    size_t count = 7;

    cr_assert_eq(COUNT("--XX--\r\n", &count), 0);
    cr_assert_eq(count, 0);
}

/* A line that ends in a bare LF is no boundary line but preamble. */
Test(multipart, lines_end_with_cr_and_lf)
{
    size_t count = 7;

    cr_assert_eq(COUNT("--XX\n" HEADER "a\r\n--XX--", &count), 0);
    cr_assert_eq(count, 0);
}

Test(multipart, malformed_bodies_are_refused)
{
    size_t count;

    cr_assert_eq(COUNT("", &count), -EINVAL);
    cr_assert_eq(COUNT("no boundary", &count), -EINVAL);
    cr_assert_eq(COUNT("--XX", &count), -EINVAL);
    cr_assert_eq(COUNT("--XX\r\n", &count), -EINVAL);
    cr_assert_eq(COUNT("--XX\r\n" HEADER "no end", &count), -EINVAL);
    cr_assert_eq(COUNT("--XX\r\n" HEADER "no end\r\n--XX", &count), -EINVAL);
    cr_assert_eq(COUNT("--XX\r\n" HEADER "no end\r\n--XX-", &count), -EINVAL);
    cr_assert_eq(COUNT("--XX\r\nName: without empty line\r\n--XX--", &count), -EINVAL);
    cr_assert_eq(COUNT("--XX\r\nno colon\r\n\r\ncontent\r\n--XX--", &count), -EINVAL);
}

/* Every prefix of a good body, and every body with one byte changed, is read without going astray. */
Test(multipart, damage_never_leads_outside_the_body)
{
    static const char body[] = "--XX\r\n" HEADER "first\r\n--XX\r\n" HEADER "second\r\n--XX--\r\n";
    char damaged[sizeof body];
    size_t count;

    for (size_t length = 0; length < sizeof body; length++) {
        int code = count_of(body, length, &count);
        cr_assert(code == 0 || code == -EINVAL);
        cr_assert(length >= sizeof body - 3 || code == -EINVAL, "a body cut off at %zu was taken", length);
    }
    for (size_t at = 0; at < sizeof body - 1; at++) {
        memcpy(damaged, body, sizeof body);
        for (int byte = 0; byte < 256; byte += 5) {
            damaged[at] = (char)byte;
            int code = count_of(damaged, sizeof body - 1, &count);
            cr_assert(code == 0 || code == -EINVAL);
        }
    }
}

/* Microseconds to split repeat times text, n bytes in all. */
static uint64_t time_of(const char *text, size_t n)
{
    size_t length = strlen(text);
    uint8_t *body = malloc(n);
    struct convoy_error error;
    size_t count;

    memcpy(body, "--XX\r\n", 6); // NOLINT(bugprone-not-null-terminated-result)
    for (size_t i = 6; i < n; i++)
        body[i] = (uint8_t)text[(i - 6) % length];
    uint64_t begun_us = convoy_now_us();
    convoy_multipart_split(body, n, "XX", NULL, n, &count, &error);
    uint64_t took_us = convoy_now_us() - begun_us;
    free(body);
    return took_us;
}

/* The end is found at every distance from what comes before, through all that begins like it. */
Test(multipart, finds_the_boundary_behind_anything)
{
    static const char *const noises[] = {"\r", "\r\n", "\r\n-", "\r\n--", "\r\n--X", "-", "x"};
    static const char head[] = "--XX\r\n" HEADER;

    for (size_t n = 0; n < sizeof noises / sizeof noises[0]; n++) {
        size_t unit = strlen(noises[n]);
        for (size_t length = 0; length < 300; length++) {
            char body[600];
            size_t at = sizeof head - 1, count;
            struct convoy_part part;
            uint8_t *copy;
            memcpy(body, head, at);
            for (size_t i = 0; i < length; i++)
                body[at++] = noises[n][i % unit];
            memcpy(body + at, "\r\n--XX--", 8);
            memset(body + at + 8, 'y', 100); /* it is not near the end alone */
            cr_assert_eq(split(body, at + 108, &part, 1, &count, &copy), 0, "noise %zu, %zu bytes", n,
                         length);
            cr_assert_eq(count, 1);
            cr_assert_eq(part.length, length, "noise %zu, %zu bytes: %zu", n, length, part.length);
            free(copy);
        }
    }
}

/* 4 MiB of what looks most like work: quadratic behaviour would take minutes, linear takes milliseconds. */
Test(multipart, hostile_bodies_cost_linear_time, .timeout = 60)
{
    static const char *const texts[] = {
        "\r\n--X",   "\r\n--XX ", "\r\n--XX                                ",
        "\r\n",      "-",         "a: b\r\n",
        "\r",        "\r\n--",    "\r\n\r",
        "\r\n--XXa", "\r\n\r\n",  "\r\n--XX\r\na:\r\n\r\n",
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        cr_assert_lt(time_of(texts[i], 4u << 20), 2000000u, "text %zu", i);
}
