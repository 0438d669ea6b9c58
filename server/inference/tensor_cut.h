/* Takes the numbers out of an inference request's JSON, so that a JSON parser, which makes an object of each,
 * sees only the small rest. */
#ifndef CONVOY_SERVER_TENSOR_CUT_H
#define CONVOY_SERVER_TENSOR_CUT_H

#include <stddef.h>

struct convoy_tensor_cut {
    char *header; /* malloc'd: the JSON with 0 for each "data" of its inputs */
    size_t header_length;
    size_t data, data_length; /* where that of the first input lies in the text; length 0: it has none */
};

/* Any text may come in: one that is no JSON stays as it is from the first mistake on, for the parser to say
 * so. Linear in length. -ENOMEM. The caller frees header. Any thread. */
int convoy_tensor_cut(const char *text, size_t length, struct convoy_tensor_cut *cut);
/* The same for "instances" of the document itself. */
int convoy_tensor_cut_instances(const char *text, size_t length, struct convoy_tensor_cut *cut);

#endif
