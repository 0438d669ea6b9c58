/* Messages out of bytes that come in any pieces, and from a peer that means no good. */
#include "engine/ipc/line_reader.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 5000u

static struct convoy_line_reader reader;
static struct convoy_error error;

static void begin(void)
{
    convoy_line_reader_begin(&reader, MOST);
}

static void end(void)
{
    convoy_line_reader_free(&reader);
}
TestSuite(line_reader, .init = begin, .fini = end);

/* As much as there is room for; returns how much. */
static size_t put(const char *bytes, size_t count)
{
    char *room;
    size_t space;
    cr_assert_eq(convoy_line_reader_room(&reader, &room, &space), 0);
    cr_assert_gt(space, 0);
    count = count < space ? count : space;
    memcpy(room, bytes, count);
    convoy_line_reader_received(&reader, count);
    return count;
}

static void put_text(const char *text)
{
    for (size_t length = strlen(text); length > 0;) {
        size_t taken = put(text, length);
        text += taken;
        length -= taken;
    }
}

/* The next message's "n"; -1: there is none. */
static int next_number(void)
{
    cJSON *message;
    int code = convoy_line_reader_next(&reader, &message, &error);
    cr_assert_geq(code, 0, "%s", error.message);
    cr_assert_eq(code == 1, message != NULL);
    if (code == 0)
        return -1;
    int number = (int)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(message, "n"));
    cJSON_Delete(message);
    return number;
}

Test(line_reader, a_message_comes_out_when_its_line_is_complete_and_not_before)
{
    static const char line[] = "{\"n\": 7, \"text\": \"a\\nb\"}\n";
    for (size_t i = 0; i + 1 < sizeof line - 1; i++) {
        put(line + i, 1);
        cr_assert_eq(next_number(), -1, "after byte %zu", i);
    }
    put("\n", 1);
    cr_assert_eq(next_number(), 7);
    cr_assert_eq(next_number(), -1);
}

Test(line_reader, many_lines_in_one_piece_come_out_in_order_and_the_rest_waits)
{
    put_text("{\"n\":1}\n{\"n\":2}\r\n {\"n\":3} \n{\"n\":");
    for (int i = 1; i <= 3; i++)
        cr_assert_eq(next_number(), i);
    cr_assert_eq(next_number(), -1);
    put_text("4}\n");
    cr_assert_eq(next_number(), 4);
}

/* Lines of all lengths in pieces that do not end where lines do: memory grows, and unfinished lines are
 * moved. */
Test(line_reader, a_stream_of_lines_survives_every_place_of_the_cut)
{
    static char stream[MOST * 140];
    size_t bytes = 0;
    int sent = 0, taken = 0;
    for (size_t length = 10; length <= MOST; length += 37, sent++) {
        int used = snprintf(stream + bytes, sizeof stream - bytes, "{\"n\":%d}", sent);
        memset(stream + bytes + used, ' ', length - (size_t)used);
        stream[bytes + length] = '\n';
        bytes += length + 1;
    }
    for (size_t at = 0; at < bytes;) {
        at += put(stream + at, bytes - at < 701 ? bytes - at : 701);
        for (int number; (number = next_number()) >= 0; taken++)
            cr_assert_eq(number, taken);
    }
    cr_assert_eq(taken, sent);
    cr_assert_leq(reader.capacity, MOST + 1, "the memory is bounded");
}

/* A line of exactly as many bytes as may be, and of one more. */
Test(line_reader, a_line_may_be_as_long_as_said_and_no_longer)
{
    char *long_line = malloc(MOST + 1), *room;
    size_t space;
    cJSON *message;
    memset(long_line, ' ', MOST + 1);
    memcpy(long_line, "{\"n\":5}", 7);
    for (size_t at = 0; at < MOST;)
        at += put(long_line + at, MOST - at);
    cr_assert_eq(next_number(), -1);
    put("\n", 1);
    cr_assert_eq(next_number(), 5);

    for (size_t at = 0; at < MOST + 1;)
        at += put(long_line + at, MOST + 1 - at);
    cr_assert_eq(next_number(), -1);
    cr_assert_eq(convoy_line_reader_room(&reader, &room, &space), -EMSGSIZE);
    cr_assert_eq(space, 0);
    cr_assert_eq(convoy_line_reader_room(&reader, &room, &space), -EMSGSIZE, "it stays so");
    cr_assert_eq(convoy_line_reader_next(&reader, &message, &error), 0);
    convoy_line_reader_reset(&reader);
    put_text("{\"n\":6}\n");
    cr_assert_eq(next_number(), 6, "a new connection");
    free(long_line);
}

Test(line_reader, a_line_that_is_not_one_object_ends_it)
{
    static const struct {
        const char *bytes;
        size_t count;
    } lines[] = {{"\n", 1},
                 {"nonsense\n", 9},
                 {"[1]\n", 4},
                 {"12\n", 3},
                 {"{\"n\":1\n", 7},
                 {"{\"n\":1}x\n", 9},
                 {"{\"n\":1}{}\n", 10},
                 {"{\"n\":\0 1}\n", 10},
                 {"{\"n\":1}\0\n", 9},
                 {"{\"text\":\"a\0b\"}\n", 15}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        cJSON *message;
        convoy_line_reader_reset(&reader);
        put_text("{\"n\":0}\n");
        put(lines[i].bytes, lines[i].count);
        put_text("{\"n\":2}\n");
        cr_assert_eq(next_number(), 0);
        for (int again = 0; again < 2; again++) {
            cr_assert_eq(convoy_line_reader_next(&reader, &message, &error), -EPROTO, "line %zu", i);
            cr_assert_null(message);
            cr_assert_not_null(strstr(error.message, "JSON"));
        }
    }
}

Test(line_reader, it_receives_from_a_socket_until_the_peer_closes)
{
    int ends[2];
    cJSON *message;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    cr_assert_eq(convoy_line_reader_receive(&reader, ends[0], MSG_DONTWAIT), -EAGAIN);
    cr_assert_eq(write(ends[1], "{\"n\":1}\n{\"n", 11), 11);
    cr_assert_eq(convoy_line_reader_receive(&reader, ends[0], 0), 11, "it may wait");
    cr_assert_eq(next_number(), 1);
    cr_assert_eq(next_number(), -1);
    cr_assert_eq(convoy_line_reader_receive(&reader, ends[0], MSG_DONTWAIT), -EAGAIN);
    cr_assert_eq(write(ends[1], "\":2}\nx\n", 7), 7);
    close(ends[1]);
    cr_assert_eq(convoy_line_reader_receive(&reader, ends[0], MSG_DONTWAIT), 7);
    cr_assert_eq(next_number(), 2);
    cr_assert_eq(convoy_line_reader_receive(&reader, ends[0], MSG_DONTWAIT), 0);
    cr_assert_eq(convoy_line_reader_next(&reader, &message, &error), -EPROTO);
    cr_assert_eq(convoy_line_reader_receive(&reader, ends[0], MSG_DONTWAIT), -EPROTO);
    close(ends[0]);
}

Test(line_reader, a_line_that_its_sender_did_not_end_is_left_out)
{
    put_text("{\"n\":1}\n{\"n\":2,\"half" CONVOY_LINE_CUT "{\"n\":3}\n" CONVOY_LINE_CUT "{\"n\":4}\n");
    cr_assert_eq(next_number(), 1);
    cr_assert_eq(next_number(), 3);
    cr_assert_eq(next_number(), 4);
    cr_assert_eq(next_number(), -1);
}

Test(line_reader, what_another_reader_was_to_read_is_left_out)
{
    convoy_line_reader_wait_for_cut(&reader);
    put_text("\"the rest of a line\":1}\n{\"n\":1}\n\0no JSON\n{\"n\":2}\n");
    cr_assert_eq(next_number(), -1);
    put_text("{\"n\":3}\n\x18");
    cr_assert_eq(next_number(), -1);
    put_text("\n{\"n\":4}\n");
    cr_assert_eq(next_number(), 4);
    put_text("{\"n\":5}\n");
    cr_assert_eq(next_number(), 5, "from then on everything counts");
}
