/* Paths to routes. */
#include "server/route.h"

#include <criterion/criterion.h>
#include <string.h>

static struct convoy_path path;

static const char *template_of(const char *target)
{
    const struct convoy_route *route = convoy_route_find(convoy_routes, convoy_route_count, target, &path);

    return route == NULL ? "none" : route->template;
}

Test(route, every_route_of_the_table_is_found_by_itself)
{
    for (size_t i = 0; i < convoy_route_count; i++)
        cr_assert_str_eq(template_of(convoy_routes[i].template), convoy_routes[i].template);
}

Test(route, captures_model_and_version)
{
    cr_assert_str_eq(template_of("/v2/models/res.net-18/versions/12/classify?top=3"),
                     "/v2/models/{model}/versions/{version}/classify");
    cr_assert_str_eq(path.model, "res.net-18");
    cr_assert_str_eq(path.version, "12");
    cr_assert_str_eq(template_of("/v2/models/a"), "/v2/models/{model}");
    cr_assert_str_eq(path.model, "a");
    cr_assert_str_eq(path.version, "");
    cr_assert_str_eq(template_of("/classify?model=a"), "/classify");
    cr_assert_str_eq(path.model, "");
}

/* The table has both, and {model} fits everything. */
Test(route, the_statistics_of_all_models_stand_before_a_model_called_stats)
{
    cr_assert_str_eq(template_of("/v2/models/stats"), "/v2/models/stats");
    cr_assert_str_eq(path.model, "");
    cr_assert_str_eq(template_of("/v2/models/stats/stats"), "/v2/models/{model}/stats");
    cr_assert_str_eq(path.model, "stats");
    cr_assert_str_eq(template_of("/v2/models/stats/versions/1"), "/v2/models/{model}/versions/{version}");
    cr_assert_str_eq(template_of("/v2/models/statsx"), "/v2/models/{model}");
}

Test(route, unknown_paths_have_none)
{
    static const char *const targets[] = {"",
                                          "/",
                                          "classify",
                                          "*",
                                          "/classify/",
                                          "//classify",
                                          "/Classify",
                                          "/classifyx",
                                          "/v2/",
                                          "/v2/models/",
                                          "/v2/models//ready",
                                          "/v2/models/a/infer",
                                          "/v2/models/a/versions",
                                          "/v2/models/a/versions/",
                                          "/v2/models/a/versions/1/classify/x",
                                          "/v2/models/a/../classify",
                                          "/%63lassify",
                                          "?top=1",
                                          "http://",
                                          "http://host"};

    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        cr_assert_str_eq(template_of(targets[i]), "none", "%s", targets[i]);
    cr_assert_str_eq(template_of(NULL), "none");
}

Test(route, takes_the_absolute_form)
{
    cr_assert_str_eq(template_of("http://127.0.0.1:8080/v2/models?x=/"), "/v2/models");
    cr_assert_str_eq(template_of("HTTP://host/classify"), "/classify");
}

Test(route, decodes_segments_without_making_separators)
{
    cr_assert_str_eq(template_of("/v2/models/%2e%2e%2Fetc%2fpasswd"), "/v2/models/{model}");
    cr_assert_str_eq(path.model, "../etc/passwd");
    cr_assert_str_eq(template_of("/v2/models/100%"), "/v2/models/{model}");
    cr_assert_str_eq(path.model, "100%");
    cr_assert_str_eq(template_of("/v2/models/%4"), "/v2/models/{model}");
    cr_assert_str_eq(path.model, "%4");
    cr_assert_str_eq(template_of("/v2/models/%zz"), "/v2/models/{model}");
    cr_assert_str_eq(path.model, "%zz");
    /* A NUL would hide what follows it. */
    cr_assert_str_eq(template_of("/v2/models/a%00b"), "none");
}

Test(route, a_long_name_is_cut_off_beyond_any_that_exists)
{
    char target[1000];

    strcpy(target, "/v2/models/");
    memset(target + 11, 'a', sizeof target - 12);
    target[sizeof target - 1] = '\0';
    cr_assert_str_eq(template_of(target), "/v2/models/{model}");
    cr_assert_eq(strlen(path.model), CONVOY_PATH_MODEL_BYTES - 1);
    cr_assert_gt(CONVOY_PATH_MODEL_BYTES - 1, 128);
}

Test(route, methods)
{
    cr_assert_eq(convoy_method_of("GET"), CONVOY_GET);
    cr_assert_eq(convoy_method_of("HEAD"), CONVOY_GET);
    cr_assert_eq(convoy_method_of("POST"), CONVOY_POST);
    cr_assert_eq(convoy_method_of("OPTIONS"), CONVOY_OTHER_METHOD);
    cr_assert_eq(convoy_method_of("get"), CONVOY_OTHER_METHOD);
    cr_assert_str_eq(
        convoy_route_allow(convoy_route_find(convoy_routes, convoy_route_count, "/classify", &path)), "POST");
    cr_assert_str_eq(
        convoy_route_allow(convoy_route_find(convoy_routes, convoy_route_count, "/metrics", &path)),
        "GET, HEAD");
}
