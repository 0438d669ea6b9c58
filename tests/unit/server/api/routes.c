/* Paths to routes: the daemon's own table, as server/http/route.h finds rows in it. */
#include "server/api/routes.h"

#include <criterion/criterion.h>
#include <stdio.h>
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

Test(route, a_verb_ends_the_segment_of_a_model)
{
    static const char predict[] = "/v1/models/{model}:predict";

    cr_assert_str_eq(template_of("/v1/models/res.net-18:predict"), predict);
    cr_assert_str_eq(path.model, "res.net-18");
    cr_assert_str_eq(template_of("/v1/models/a%3Apredict?x=1"), predict);
    cr_assert_str_eq(path.model, "a");
    cr_assert_str_eq(template_of("/v1/models/a%62%3apredict"), predict);
    cr_assert_str_eq(path.model, "ab");
    cr_assert_str_eq(template_of("/v1/models/a:predict:predict"), predict);
    cr_assert_str_eq(path.model, "a:predict");
    /* Without a name, or with another verb, it is no such path. */
    cr_assert_str_eq(template_of("/v1/models/:predict"), "/v1/models/{model}");
    cr_assert_str_eq(template_of("/v1/models/%3Apredict"), "/v1/models/{model}");
    cr_assert_str_eq(template_of("/v1/models/predict"), "/v1/models/{model}");
    cr_assert_str_eq(template_of("/v1/models/apredict"), "/v1/models/{model}");
    cr_assert_str_eq(template_of("/v1/models/a:predicts"), "/v1/models/{model}");
    cr_assert_str_eq(path.model, "a:predicts");
    cr_assert_str_eq(template_of("/v1/models/a:predict/x"), "none");
    cr_assert_str_eq(template_of("/v1/models/"), "none");
}

Test(route, captures_the_region_of_shared_memory)
{
    cr_assert_str_eq(template_of("/v2/systemsharedmemory/region/in%20put%2f1/register"),
                     "/v2/systemsharedmemory/region/{region}/register");
    cr_assert_str_eq(path.region, "in put/1");
    cr_assert_str_eq(path.model, "");
    cr_assert_str_eq(template_of("/v2/systemsharedmemory/region/status/status"),
                     "/v2/systemsharedmemory/region/{region}/status");
    cr_assert_str_eq(path.region, "status");
    cr_assert_str_eq(template_of("/v2/systemsharedmemory/region/a/unregister"),
                     "/v2/systemsharedmemory/region/{region}/unregister");
    /* Nothing of a path before is left. */
    cr_assert_str_eq(template_of("/v2/systemsharedmemory/unregister"), "/v2/systemsharedmemory/unregister");
    cr_assert_str_eq(path.region, "");
    cr_assert_str_eq(template_of("/v2/systemsharedmemory/region/a/status?x=1"),
                     "/v2/systemsharedmemory/region/{region}/status");
    cr_assert_str_eq(path.region, "a");
    cr_assert_str_eq(template_of("/v2/models/m/versions/3"), "/v2/models/{model}/versions/{version}");
    cr_assert_str_eq(path.region, "");
    cr_assert_str_eq(template_of("/v2/systemsharedmemory/region/a/nothing"), "none");
    cr_assert_str_eq(path.region, "");
    cr_assert_str_eq(path.version, "");
}

Test(route, the_page_and_its_files_are_the_last_rows)
{
    size_t others = convoy_route_count - convoy_page_route_count;

    cr_assert_str_eq(template_of("/"), "/");
    cr_assert_str_eq(path.file, "");
    cr_assert_str_eq(template_of("/?x=1"), "/");
    cr_assert_str_eq(template_of("http://host/"), "/");
    cr_assert_str_eq(template_of("/web/main.js"), "/web/{file}");
    cr_assert_str_eq(path.file, "main.js");
    cr_assert_str_eq(template_of("/web/%2e%2e%2fclassify"), "/web/{file}");
    cr_assert_str_eq(path.file, "../classify");
    cr_assert_str_eq(template_of("/classify"), "/classify");
    cr_assert_str_eq(path.file, "");
    cr_assert_null(convoy_route_find(convoy_routes, others, "/", &path));
    cr_assert_null(convoy_route_find(convoy_routes, others, "/web/main.js", &path));
    for (size_t i = 0; i < others; i++)
        cr_assert(strncmp(convoy_routes[i].template, "/web", 4) != 0 && convoy_routes[i].template[1] != '\0');
}

Test(route, unknown_paths_have_none)
{
    static const char *const targets[] = {"",
                                          "//",
                                          "/web",
                                          "/web/",
                                          "/web/a/b",
                                          "classify",
                                          "*",
                                          "/classify/",
                                          "//classify",
                                          "/Classify",
                                          "/classifyx",
                                          "/v2/",
                                          "/v2/models/",
                                          "/v2/models//ready",
                                          "/v2/models/a/inferred",
                                          "/v2/models/a/versions",
                                          "/v2/models/a/versions/",
                                          "/v2/models/a/versions/1/classify/x",
                                          "/v2/models/a/../classify",
                                          "/%63lassify",
                                          "/v2/systemsharedmemory",
                                          "/v2/systemsharedmemory/register",
                                          "/v2/systemsharedmemory/region/register",
                                          "/v2/systemsharedmemory/region//register",
                                          "/v2/systemsharedmemory/region/a/b/register",
                                          "/v2/systemsharedmemory/region/a%00/register",
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

Test(route, the_longest_name_of_a_region_is_kept_whole)
{
    char target[1000];
    int start = snprintf(target, sizeof target, "/v2/systemsharedmemory/region/");

    memset(target + start, 'a', 300);
    strcpy(target + start + 255, "/status");
    cr_assert_str_eq(template_of(target), "/v2/systemsharedmemory/region/{region}/status");
    cr_assert_eq(strlen(path.region), 255);
    /* Encoded: three characters for each byte. */
    for (int i = 0; i < 255; i++)
        memcpy(target + start + 3 * i, "%61", 3);
    strcpy(target + start + 3 * 255, "/status");
    cr_assert_str_eq(template_of(target), "/v2/systemsharedmemory/region/{region}/status");
    cr_assert_eq(strlen(path.region), 255);
    /* A longer one is still longer, so that it is not taken for another. */
    memset(target + start, 'a', 300);
    strcpy(target + start + 300, "/status");
    cr_assert_str_eq(template_of(target), "/v2/systemsharedmemory/region/{region}/status");
    cr_assert_gt(strlen(path.region), 255);
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

Test(route, one_may_take_two_methods)
{
    static const struct convoy_route both = {CONVOY_GET_OR_POST, "/both", NULL, true},
                                     get = {CONVOY_GET, "/get", NULL, false};
    cr_assert(convoy_route_takes(&both, CONVOY_GET) && convoy_route_takes(&both, CONVOY_POST));
    cr_assert_not(convoy_route_takes(&both, CONVOY_OTHER_METHOD));
    cr_assert(convoy_route_takes(&get, CONVOY_GET) && !convoy_route_takes(&get, CONVOY_POST));
    cr_assert_str_eq(convoy_route_allow(&both), "GET, HEAD, POST");
    cr_assert_str_eq(convoy_route_allow(&get), "GET, HEAD");
}
