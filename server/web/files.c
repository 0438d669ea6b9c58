#include "server/web/files.h"

#include <string.h>

#define HTML   "text/html; charset=utf-8"
#define STYLE  "text/css; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"
#define ICON   "image/svg+xml"

/* Name, identifier and type of each file of page/ but index.html; server/CMakeLists.txt embeds them. */
#define FILES(FILE)                                                                                          \
    FILE("page.css", page_css, STYLE)                                                                        \
    FILE("icon.svg", icon_svg, ICON)                                                                         \
    FILE("main.js", main_js, SCRIPT)                                                                         \
    FILE("dom.js", dom_js, SCRIPT)                                                                           \
    FILE("server.js", server_js, SCRIPT)                                                                     \
    FILE("key.js", key_js, SCRIPT)                                                                           \
    FILE("try.js", try_js, SCRIPT)                                                                           \
    FILE("pictures.js", pictures_js, SCRIPT)                                                                 \
    FILE("answer.js", answer_js, SCRIPT)                                                                     \
    FILE("explain.js", explain_js, SCRIPT)                                                                   \
    FILE("commands.js", commands_js, SCRIPT)                                                                 \
    FILE("export.js", export_js, SCRIPT)                                                                     \
    FILE("live.js", live_js, SCRIPT)                                                                         \
    FILE("history.js", history_js, SCRIPT)                                                                   \
    FILE("chart.js", chart_js, SCRIPT)                                                                       \
    FILE("models.js", models_js, SCRIPT)

#define DECLARE(name, identifier, type)                                                                      \
    extern const unsigned char convoy_web_##identifier[];                                                    \
    extern const size_t convoy_web_##identifier##_length;                                                    \
    extern const char convoy_web_##identifier##_sha256[];

#define ROW(name, identifier, type)                                                                          \
    {name, type, convoy_web_##identifier, &convoy_web_##identifier##_length,                                 \
     convoy_web_##identifier##_sha256},

DECLARE("index.html", index_html, HTML)
FILES(DECLARE)

const struct convoy_web_file convoy_web_index = {"index.html", HTML, convoy_web_index_html,
                                                 &convoy_web_index_html_length, convoy_web_index_html_sha256};

static const struct convoy_web_file files[] = {FILES(ROW)};

const struct convoy_web_file *convoy_web_find(const char *name)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}
