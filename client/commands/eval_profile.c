/* The layers' times of `convoy eval`. */
#include <stdio.h>

#include "client/commands/eval.h"

void convoy_eval_profile(const struct convoy_eval_arguments *arguments, struct convoy_client *client,
                         const struct convoy_image *images, size_t count, struct convoy_eval_result *result)
{
    const struct convoy_options options = {
        .model = arguments->common.model, .version = arguments->common.version, .top = 1, .profile = true};
    struct convoy_terminal terminal = convoy_terminal_open(stderr);
    size_t waits = 0; /* not the accuracy pass's */
    for (size_t i = 0; i < count && !result->layers_problem[0]; i++) {
        struct convoy_answer *answer = NULL;
        struct convoy_failure failure;
        int status = convoy_eval_classify(client, &images[i], 1, &options, &answer, &waits, &failure);
        if (status == 0 && answer->layer_count == 0)
            snprintf(result->layers_problem, sizeof result->layers_problem,
                     "the server does not time layers");
        else if (status == 0)
            status = convoy_layer_means_add(&result->layers, answer->layers, answer->layer_count, &failure);
        if (status)
            snprintf(result->layers_problem, sizeof result->layers_problem, "%s", failure.message);
        convoy_answer_free(answer);
        convoy_print_progress(stderr, &terminal, "layers", i + 1, count);
    }
    convoy_end_progress(stderr, &terminal);
}
