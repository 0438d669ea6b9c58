#include "server/api/unpack.h"

#include "server/api/app.h"
#include "server/config/config.h"
#include "server/http/body_quota.h"
#include "server/http/buffer_pool.h"
#include "server/http/compression.h"

#include <errno.h>
#include <strings.h>

/* What a byte of a PNG can hold at most: deflate packs 1,032 times, and a byte is eight pixels. Images that
 * are packed once more may have no more pixels for each byte that came, and a few for nothing. */
#define PIXELS_A_BYTE 8256u
#define PIXELS_FREE   (1u << 20)

const char *convoy_unpack_encoding(const struct convoy_request *request)
{
    const char *encoding = convoy_request_header(request, "Content-Encoding");
    return encoding != NULL && strcasecmp(encoding, "identity") != 0 ? encoding : NULL;
}

static size_t most_of(const struct convoy_request *request)
{
    return (size_t)convoy_app_of(request)->config->http.max_body_bytes;
}

size_t convoy_unpack_hint(const struct convoy_request *request)
{
    size_t most = most_of(request);
    size_t size = convoy_unpacked_hint(convoy_unpack_encoding(request), request->body, request->body_length);
    return size < most ? size : most;
}

size_t convoy_unpack_memory_limit(const struct convoy_request *request, size_t bytes)
{
    return convoy_body_quota_limit(convoy_app_of(request)->config->http.max_body_bytes, bytes);
}

int convoy_unpack_no_memory(struct convoy_error *error)
{
    return convoy_fail(error, -EAGAIN,
                       "the requests that are being received take all the memory that is set aside for them: "
                       "try again later");
}

/* Memory that unpacking takes of what is set aside for all bodies. */
struct unpacking {
    const struct convoy_request *request;
    size_t taken;
};

static bool take_memory(void *context, size_t bytes)
{
    struct unpacking *unpacking = context;

    if (!convoy_body_quota_take(bytes,
                                convoy_unpack_memory_limit(unpacking->request, unpacking->taken + bytes)))
        return false;
    unpacking->taken += bytes;
    return true;
}

int convoy_unpack(struct convoy_request *request, struct convoy_error *error)
{
    struct unpacking unpacking = {.request = request};
    size_t length;
    uint8_t *unpacked;
    int code = convoy_decompress(convoy_unpack_encoding(request), request->body, request->body_length,
                                 most_of(request), take_memory, &unpacking, &unpacked, &length, error);
    if (code != 0) {
        convoy_body_quota_give(unpacking.taken);
        return code;
    }
    request->packed = request->body_length;
    convoy_buffer_pool_free(request->body);
    convoy_body_quota_give(request->body_capacity);
    request->body = unpacked;
    request->body_length = length;
    request->body_capacity = unpacking.taken;
    return 0;
}

int convoy_unpack_check_pixels(uint64_t pixels, size_t packed, struct convoy_error *error)
{
    if (pixels <= PIXELS_FREE + (uint64_t)packed * PIXELS_A_BYTE)
        return 0;
    return convoy_fail(error, -EFBIG,
                       "the images have %llu pixels, more than the %zu bytes of a compressed body may: send "
                       "them without Content-Encoding",
                       (unsigned long long)pixels, packed);
}
