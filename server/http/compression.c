#include "server/http/compression.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

/* zlib counts what it is given in unsigned int: longer buffers go through in pieces. */
#define PIECE ((size_t)1 << 30)

/* zlib's windowBits: the size of the window, and the form of the stream around it. */
#define WINDOW_GZIP (15 + 16)
#define WINDOW_ZLIB 15
#define WINDOW_BARE (-15)

#define FIRST_ROOM 4096

static uInt piece(size_t bytes)
{
    return (uInt)(bytes < PIECE ? bytes : PIECE);
}

/* ---- Unpacking ---- */

struct unpacking {
    z_stream stream;
    const uint8_t *end; /* of the input */
    uint8_t *out;
    size_t length, capacity, most;
    bool (*take)(void *context, size_t bytes); /* NULL: memory is not counted */
    void *context;
};

/* A zlib stream begins with two bytes that are a multiple of 31 and name the method deflate (RFC 1950, 2.2).
 * No encoder begins bare deflate so: it would be a stored block with bits set that are padding. */
static bool zlib_header(const uint8_t *in, size_t length)
{
    return length >= 2 && (in[0] & 0x0f) == Z_DEFLATED && (in[0] << 8 | in[1]) % 31 == 0;
}

static bool same_coding(const char *text, size_t length, const char *coding)
{
    return length == strlen(coding) && strncasecmp(text, coding, length) == 0;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

static enum convoy_encoding encoding_of(const char *text, size_t length)
{
    if (same_coding(text, length, "gzip") || same_coding(text, length, "x-gzip"))
        return CONVOY_ENCODING_GZIP;
    return same_coding(text, length, "deflate") ? CONVOY_ENCODING_DEFLATE : CONVOY_ENCODING_NONE;
}

/* The encoding in a header's value, without the blanks around it. */
static enum convoy_encoding named_encoding(const char *value)
{
    size_t length;

    while (blank(*value))
        value++;
    length = strlen(value);
    while (length > 0 && blank(value[length - 1]))
        length--;
    return encoding_of(value, length);
}

static int fail_damaged(const char *why, struct convoy_error *error)
{
    return convoy_fail(error, -EBADMSG,
                       "the compressed body cannot be unpacked: %s; send it again, or uncompressed", why);
}

static int fail_large(size_t most, struct convoy_error *error)
{
    return convoy_fail(error, -EMSGSIZE,
                       "the body is larger than %zu bytes when it is unpacked: send less in one request",
                       most);
}

/* Twice the room, up to the most. */
static int grow(struct unpacking *unpacking, struct convoy_error *error)
{
    size_t capacity = unpacking->capacity > 0 ? unpacking->capacity : FIRST_ROOM;

    if (unpacking->capacity > 0)
        capacity = capacity <= unpacking->most / 2 ? capacity * 2 : unpacking->most;
    if (capacity > unpacking->most)
        capacity = unpacking->most;
    if (unpacking->take != NULL && !unpacking->take(unpacking->context, capacity - unpacking->capacity))
        return convoy_fail(
            error, -EAGAIN,
            "the requests that are being received take all the memory that is set aside for them: try again "
            "later");
    uint8_t *out = realloc(unpacking->out, capacity > 0 ? capacity : 1);
    if (out == NULL)
        return convoy_fail(error, -ENOMEM, "the server is out of memory: try again later");
    unpacking->out = out;
    unpacking->capacity = capacity;
    return 0;
}

/* One call of inflate() on what is left of the input and of the room; *status is what it returned. When the
 * output is as long as it may be, the end of the stream may still be missing: a byte beside it shows whether
 * there is more to come. */
static int inflate_on(struct unpacking *unpacking, int *status, struct convoy_error *error)
{
    z_stream *stream = &unpacking->stream;
    uint8_t beyond;

    if (unpacking->length == unpacking->capacity && unpacking->capacity < unpacking->most) {
        int code = grow(unpacking, error);
        if (code != 0)
            return code;
    }
    bool full = unpacking->length == unpacking->most;
    size_t room = full ? 1 : unpacking->capacity - unpacking->length;
    uInt given = piece(room);
    stream->next_out = full ? &beyond : unpacking->out + unpacking->length;
    stream->avail_out = given;
    stream->avail_in = piece((size_t)(unpacking->end - stream->next_in));
    *status = inflate(stream, Z_NO_FLUSH);
    uInt made = given - stream->avail_out;
    if (full && made > 0)
        return fail_large(unpacking->most, error);
    unpacking->length += made;
    return 0;
}

/* One stream from its first to its last byte: a member of a gzip file, or all there is. */
static int unpack_stream(struct unpacking *unpacking, struct convoy_error *error)
{
    int status;

    do {
        int code = inflate_on(unpacking, &status, error);
        if (code != 0)
            return code;
    } while (status == Z_OK);
    switch (status) {
    case Z_STREAM_END:
        return 0;
    case Z_MEM_ERROR:
        return convoy_fail(error, -ENOMEM, "the server is out of memory: try again later");
    case Z_BUF_ERROR: /* there is always room for output, so input is what it wants */
        return fail_damaged("it is cut off", error);
    case Z_NEED_DICT:
        return fail_damaged("it needs a dictionary", error);
    default:
        return fail_damaged(unpacking->stream.msg != NULL ? unpacking->stream.msg : "it is damaged", error);
    }
}

/* All streams that follow each other; only gzip has more than one. */
static int unpack(struct unpacking *unpacking, enum convoy_encoding encoding, struct convoy_error *error)
{
    for (;;) {
        int code = unpack_stream(unpacking, error);
        if (code != 0)
            return code;
        size_t left = (size_t)(unpacking->end - unpacking->stream.next_in);
        if (left == 0)
            return 0;
        /* The first byte that a member begins with; the rest of its header is zlib's to check. */
        if (encoding != CONVOY_ENCODING_GZIP || *unpacking->stream.next_in != 0x1f)
            return fail_damaged("something follows its end", error);
        if (inflateReset(&unpacking->stream) != Z_OK)
            return fail_damaged("it is damaged", error);
    }
}

int convoy_decompress(const char *encoding, const uint8_t *in, size_t length, size_t most,
                      bool (*take)(void *context, size_t bytes), void *context, uint8_t **out,
                      size_t *out_length, struct convoy_error *error)
{
    enum convoy_encoding coding = named_encoding(encoding);
    struct unpacking unpacking = {.end = in + length, .most = most, .take = take, .context = context};
    int window = WINDOW_GZIP;

    *out = NULL;
    *out_length = 0;
    if (coding == CONVOY_ENCODING_NONE)
        return convoy_fail(error, -ENOTSUP,
                           "the Content-Encoding '%s' is not understood: send gzip, deflate or none",
                           encoding);
    if (coding == CONVOY_ENCODING_DEFLATE)
        window = zlib_header(in, length) ? WINDOW_ZLIB : WINDOW_BARE;
    unpacking.stream.next_in = (Bytef *)in; /* which zlib only reads */
    if (inflateInit2(&unpacking.stream, window) != Z_OK)
        return convoy_fail(error, -ENOMEM, "the server is out of memory: try again later");
    int code = grow(&unpacking, error); /* what unpacks to nothing is no null pointer */
    if (code == 0)
        code = unpack(&unpacking, coding, error);
    inflateEnd(&unpacking.stream);
    if (code != 0) {
        free(unpacking.out);
        return code;
    }
    *out = unpacking.out;
    *out_length = unpacking.length;
    return 0;
}

/* How many times as large as its packed form JSON is, about, and anything at most. */
#define USUAL_PACKING 8
#define MOST_PACKING  1032

size_t convoy_unpacked_hint(const char *encoding, const uint8_t *in, size_t length)
{
    size_t said = length * USUAL_PACKING;

    if (named_encoding(encoding) != CONVOY_ENCODING_GZIP || length < 4)
        return said;
    in += length - 4;
    said = (size_t)in[0] | (size_t)in[1] << 8 | (size_t)in[2] << 16 | (size_t)in[3] << 24;
    return said < length ? length : said / MOST_PACKING > length ? length * MOST_PACKING : said;
}

/* ---- Choosing ---- */

/* A weight in thousandths, "1", "0.5", "0.125", from at on; moves it past. -1 when it is none (RFC 9110,
 * 12.4.2). */
static int read_weight(const char **at)
{
    const char *text = *at;

    if (*text != '0' && *text != '1')
        return -1;
    int weight = (*text++ - '0') * 1000;
    if (*text == '.') {
        text++;
        for (int unit = 100; unit > 0 && *text >= '0' && *text <= '9'; unit /= 10)
            weight += (*text++ - '0') * unit;
    }
    *at = text;
    return weight <= 1000 ? weight : -1;
}

static const char *skip_blanks(const char *text)
{
    while (blank(*text))
        text++;
    return text;
}

/* What follows a coding: its weight, or 1000 where none stands; -1 when it is malformed. */
static int weight_after(const char *text)
{
    text = skip_blanks(text);
    if (*text == ',' || *text == '\0')
        return 1000;
    if (*text != ';')
        return -1;
    text = skip_blanks(text + 1);
    if ((*text != 'q' && *text != 'Q') || text[1] != '=')
        return -1;
    text += 2;
    int weight = read_weight(&text);
    text = skip_blanks(text);
    return *text == ',' || *text == '\0' ? weight : -1;
}

enum convoy_encoding convoy_encoding_choose(const char *accept_encoding)
{
    /* The weights in thousandths; -1: not named. */
    int gzip = -1, deflate = -1, identity = -1, others = -1;

    for (const char *at = accept_encoding; at != NULL && *at != '\0';) {
        at += strspn(at, ", \t");
        size_t length = strcspn(at, ",; \t");
        int weight = weight_after(at + length);
        enum convoy_encoding encoding = encoding_of(at, length);
        int *named = NULL;
        if (encoding == CONVOY_ENCODING_GZIP)
            named = &gzip;
        else if (encoding == CONVOY_ENCODING_DEFLATE)
            named = &deflate;
        else if (same_coding(at, length, "identity"))
            named = &identity;
        else if (same_coding(at, length, "*"))
            named = &others;
        if (named != NULL && *named < 0)
            *named = weight;
        at += strcspn(at, ",");
    }
    if (gzip < 0)
        gzip = others;
    if (deflate < 0)
        deflate = others;
    int best = gzip >= deflate ? gzip : deflate;
    if (best <= 0 || best < identity)
        return CONVOY_ENCODING_NONE;
    return gzip >= deflate ? CONVOY_ENCODING_GZIP : CONVOY_ENCODING_DEFLATE;
}

const char *convoy_encoding_name(enum convoy_encoding encoding)
{
    switch (encoding) {
    case CONVOY_ENCODING_GZIP:
        return "gzip";
    case CONVOY_ENCODING_DEFLATE:
        return "deflate";
    default:
        return NULL;
    }
}

/* ---- Packing ---- */

static int pack(z_stream *stream, const uint8_t *in, size_t length, uint8_t *out, size_t capacity)
{
    const uint8_t *in_end = in + length;
    uint8_t *out_end = out + capacity;
    int status;

    stream->next_in = (Bytef *)in;
    stream->next_out = out;
    do {
        size_t left = (size_t)(in_end - stream->next_in);
        stream->avail_in = piece(left);
        stream->avail_out = piece((size_t)(out_end - stream->next_out));
        status = deflate(stream, left <= PIECE ? Z_FINISH : Z_NO_FLUSH);
    } while (status == Z_OK);
    return status;
}

int convoy_compress(enum convoy_encoding encoding, const uint8_t *in, size_t length, uint8_t **out,
                    size_t *out_length)
{
    z_stream stream = {0};

    *out = NULL;
    *out_length = 0;
    if (encoding == CONVOY_ENCODING_NONE)
        return -EINVAL;
    if (deflateInit2(&stream, 1, Z_DEFLATED, encoding == CONVOY_ENCODING_GZIP ? WINDOW_GZIP : WINDOW_ZLIB, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    size_t capacity = deflateBound(&stream, length);
    uint8_t *packed = malloc(capacity);
    int code = packed == NULL ? -ENOMEM : 0;
    if (code == 0 && pack(&stream, in, length, packed, capacity) != Z_STREAM_END)
        code = -ENOMEM; /* all else has room enough */
    size_t made = code == 0 ? (size_t)(stream.next_out - packed) : 0;
    deflateEnd(&stream);
    if (code != 0) {
        free(packed);
        return code;
    }
    uint8_t *fitting = realloc(packed, made); /* an answer waits for its client in what it needs */
    *out = fitting != NULL ? fitting : packed;
    *out_length = made;
    return 0;
}
