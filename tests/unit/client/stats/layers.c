/* The mean time of each layer. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "client/stats/layers.h"

Test(client_layers, means_are_means)
{
    struct client_layer_means means = {0};
    struct convoy_failure failure;
    static const double times[][2] = {{10, 1}, {20, 2}, {60, 6}};
    for (size_t i = 0; i < 3; i++) {
        char name[] = "conv"; /* the answer goes before the means do */
        struct convoy_layer layers[] = {{name, "direct", times[i][0]}, {"pool", "", times[i][1]}};
        cr_assert_eq(client_layer_means_add(&means, layers, 2, &failure), 0, "%s", failure.message);
        memset(name, 'x', sizeof name - 1);
    }
    cr_assert(means.images == 3 && means.count == 2);
    cr_assert_float_eq(means.layers[0].us, 30, 1e-12);
    cr_assert_float_eq(means.layers[1].us, 3, 1e-12);
    cr_assert_str_eq(means.layers[0].name, "conv");
    cr_assert_str_eq(means.layers[0].kernel, "direct");
    client_layer_means_clear(&means);
    cr_assert(!means.layers && means.count == 0);
}

Test(client_layers, other_layers_are_not_mixed_in)
{
    struct client_layer_means means = {0};
    struct convoy_failure failure;
    struct convoy_layer one[] = {{"a", "k", 1}, {"b", "k", 2}}, other[] = {{"a", "k", 9}, {"c", "k", 9}};
    cr_assert_eq(client_layer_means_add(&means, one, 2, &failure), 0);
    cr_assert_eq(client_layer_means_add(&means, other, 2, &failure), -EPROTO);
    cr_assert_eq(client_layer_means_add(&means, one, 1, &failure), -EPROTO);
    cr_assert(means.images == 1 && means.layers[0].us == 1 && means.layers[1].us == 2);
    client_layer_means_clear(&means);
}
