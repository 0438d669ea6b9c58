/* Bodies that travel compressed: the content codings of HTTP that zlib knows (RFC 9110, 8.4.1). Pure
 * functions over bytes in memory, any thread. What is not compressed ("identity") is the caller's to see. */
#ifndef CONVOY_SERVER_COMPRESSION_H
#define CONVOY_SERVER_COMPRESSION_H

#include "engine/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum convoy_encoding { CONVOY_ENCODING_NONE, CONVOY_ENCODING_GZIP, CONVOY_ENCODING_DEFLATE };

/* Unpacks length bytes as the value of Content-Encoding says: "gzip" (or "x-gzip"; one member or several) or
 * "deflate", which is a zlib stream or, as clients are known to send, bare deflate. Both without regard to
 * case. *out becomes malloc'd memory, the caller's to free, and grows with what comes: it never has more than
 * most bytes (at least one), whatever the stream would unpack to. take, unless it is NULL, is asked before
 * each bytes more; what it has allowed stays taken, also on failure. Bare deflate carries no checksum, so not
 * all damage to it shows.
 *
 * -ENOTSUP: another encoding, or a list of several; -EMSGSIZE: more than most bytes; -EBADMSG: damaged, cut
 * off, or followed by something else; -EAGAIN: take returned false; -ENOMEM. *out is then NULL. */
int convoy_decompress(const char *encoding, const uint8_t *in, size_t length, size_t most,
                      bool (*take)(void *context, size_t bytes), void *context, uint8_t **out,
                      size_t *out_length, struct convoy_error *error);

/* Estimates the unpacked size, in bytes, without unpacking: what the end of a gzip stream says (modulo
 * 2^32, of its last member alone), within what is possible, and eight times as much of any other. */
size_t convoy_unpacked_hint(const char *encoding, const uint8_t *in, size_t length);

/* What an answer may be compressed with for a client that sent this value of Accept-Encoding (RFC 9110,
 * 12.5.3; NULL: none was sent): the encoding of the greatest weight, gzip where two weigh the same, and none
 * where both weigh 0 or less than an "identity" that is named. A member that is malformed, or repeats a
 * coding, is ignored. */
enum convoy_encoding convoy_encoding_choose(const char *accept_encoding);

/* The value of Content-Encoding; NULL for none. */
const char *convoy_encoding_name(enum convoy_encoding encoding);

/* Compresses at zlib's fastest level. *out becomes malloc'd memory, the caller's to free. -EINVAL: encoding
 * is none; -ENOMEM. */
int convoy_compress(enum convoy_encoding encoding, const uint8_t *in, size_t length, uint8_t **out,
                    size_t *out_length);

#endif
