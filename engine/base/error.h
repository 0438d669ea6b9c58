/* A sentence for the person who must act on a failure.
 *
 * A function that can fail returns 0 or a negative errno value and, where it takes a struct convoy_error,
 * fills it with one sentence that names the file, node or key at fault. */
#ifndef CONVOY_ENGINE_BASE_ERROR_H
#define CONVOY_ENGINE_BASE_ERROR_H

#define CONVOY_ERROR_BYTES 512

struct convoy_error {
    char message[CONVOY_ERROR_BYTES]; /* NUL-terminated; truncated on a UTF-8 boundary when too long */
};

/* Fills error (may be NULL) from a printf format and returns code, so that callers can write
 * `return convoy_fail(error, -EINVAL, "...", ...)`. Any thread; error is the caller's. */
__attribute__((format(printf, 3, 4))) int convoy_fail(struct convoy_error *error, int code,
                                                      const char *format, ...);

/* Puts "prefix: " before the sentence already in error (may be NULL); returns code. For callers that know the
 * file while the callee knew only the node. */
__attribute__((format(printf, 3, 4))) int convoy_fail_in(struct convoy_error *error, int code,
                                                         const char *format, ...);

#endif
