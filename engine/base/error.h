/* Errors as sentences for the person who must act on them.
 *
 * A function that can fail returns 0 or a negative errno value and, where it takes a struct convoy_error,
 * fills it with one sentence that names the file, node or key at fault. */
#ifndef CONVOY_ENGINE_BASE_ERROR_H
#define CONVOY_ENGINE_BASE_ERROR_H

#define CONVOY_ERROR_BYTES 512

struct convoy_error {
    char message[CONVOY_ERROR_BYTES]; /* NUL-terminated; truncated on a UTF-8 boundary when too long */
};

/* Fills error (may be NULL) from a printf format and evaluates to code, so that callers can write `return
 * convoy_fail(error, -EINVAL, "...", ...)`. code is evaluated first, so it may be -errno. Any thread; error
 * is the caller's. It is a macro so that compilers and analysers see which code is returned. */
#define convoy_fail(error, code, ...)                                                                        \
    ({                                                                                                       \
        int convoy_code_ = (code);                                                                           \
        convoy_error_fill((error), __VA_ARGS__);                                                             \
        convoy_code_;                                                                                        \
    })

/* The same, but puts the formatted text and ": " before the sentence that is already in error. For callers
 * that know the file where the callee knew only the node. */
#define convoy_fail_in(error, code, ...)                                                                     \
    ({                                                                                                       \
        int convoy_code_ = (code);                                                                           \
        convoy_error_prefix((error), __VA_ARGS__);                                                           \
        convoy_code_;                                                                                        \
    })

/* Called by the macros. */
__attribute__((format(printf, 2, 3))) void convoy_error_fill(struct convoy_error *error, const char *format,
                                                             ...);
__attribute__((format(printf, 2, 3))) void convoy_error_prefix(struct convoy_error *error, const char *format,
                                                               ...);

#endif
