#include "client/chart/page.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "client/chart/markup.h"

/* Colours after Okabe and Ito (Color Universal Design), which all kinds of colour vision tell apart; darkened
 * for a light ground and lightened for a dark one so that each has a contrast of 3 to 1 to it. */
static const char style[] =
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#57606a;--grid:#e3e6ea;--edge:#8c959f;"
    "--warn:#fff3d6;--c0:#0072b2;--c1:#c24e00;--c2:#00795c;--c3:#b0467f;--c4:#a87800;--c5:#6a5acd}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#14171a;--ink:#e6e9ec;--soft:#a3abb3;--grid:#2a2f35;"
    "--edge:#6b747d;--warn:#3d3213;--c0:#56b4e9;--c1:#ff8f4a;--c2:#2fc79d;--c3:#e79cc6;--c4:#f0c446;--c5:#"
    "b9a6ff}}\n"
    "body{margin:0 auto;max-width:1080px;padding:16px 20px 48px;background:var(--paper);color:var(--ink);"
    "font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:24px;margin:8px 0 4px}h2{font-size:19px;margin:36px 0 4px}p{margin:6px 0;max-width:80ch}\n"
    ".warn{background:var(--warn);padding:8px 12px;border-radius:6px}.soft{color:var(--soft)}\n"
    ".wide{overflow-x:auto}.wide .number,.load{white-space:nowrap}"
    ".wide .text{min-width:8em;overflow-wrap:break-word}.pair{display:flex;flex-wrap:wrap;gap:8px "
    "24px}.pair>*{max-width:100%}\n"
    "table{border-collapse:collapse;margin:10px 0;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:3px 10px;border-bottom:1px solid var(--grid);text-align:left;vertical-align:top}"
    "thead th{border-bottom:1px solid var(--edge)}.number{text-align:right}td{overflow-wrap:anywhere}\n"
    "figure{margin:0;width:152px}figure "
    "img{width:128px;height:128px;object-fit:contain;image-rendering:pixelated;"
    "background:var(--grid);border-radius:4px}figcaption{font-size:13px;line-height:1.35;overflow-wrap:"
    "anywhere}"
    ".gone{display:flex;width:128px;height:128px;align-items:center;text-align:center;background:var(--grid);"
    "border-radius:4px;font-size:12px}\n"
    "svg.chart{max-width:100%;height:auto;margin:14px 0 4px;display:block;font:12px system-ui,sans-serif}"
    ".wide svg.chart{max-width:none}svg.chart text{fill:var(--ink)}svg.chart "
    ".title{font-size:15px;font-weight:600}\n"
    "svg.chart .tick,svg.chart .none{fill:var(--soft)}.grid{stroke:var(--grid)}.axis{stroke:var(--edge)}"
    ".line{stroke:currentColor;stroke-width:2;fill:none;stroke-linejoin:round}.dashed{stroke-dasharray:5 4}\n"
    ".mark{fill:currentColor;stroke:currentColor;stroke-width:1.5}.hollow{fill:var(--paper)}"
    ".whisker{stroke:currentColor;stroke-width:1.5;fill:none}.diagonal{stroke:var(--soft);stroke-dasharray:4 "
    "4;"
    "fill:none}.block,.cell{fill:currentColor}.part{stroke:var(--paper)}.pale{fill-opacity:.45}"
    "svg.chart .label{fill:var(--soft);paint-order:stroke;stroke:var(--paper);stroke-width:4px}"
    "svg.chart .count.over{fill:var(--paper)}\n"
    ".c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}"
    ".c5{color:var(--c5)}.better{color:var(--c2)}.worse{color:var(--c1)}\n"
    "@media print{body{max-width:none}svg.chart,tr,figure{break-inside:avoid}}\n";

#define SCRIPT "<script type=\"application/json\" id=\""

void client_page_open(FILE *out, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
          "<meta charset=\"utf-8\" />\n<meta name=\"viewport\" content=\"width=device-width, "
          "initial-scale=1\" />\n"
          "<meta http-equiv=\"Content-Security-Policy\" "
          "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\" />\n",
          out);
    client_page_element(out, "title", title);
    fprintf(out, "<style>\n%s</style>\n</head>\n<body>\n", style);
    client_page_element(out, "h1", title);
}

void client_page_element(FILE *out, const char *tag, const char *text)
{
    fprintf(out, "<%s>", tag);
    client_markup_text(out, text);
    fprintf(out, "</%.*s>\n", (int)strcspn(tag, " "), tag);
}

void client_page_format(FILE *out, const char *tag, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    client_page_element(out, tag, text);
}

void client_page_data(FILE *out, const char *id, const char *json)
{
    fprintf(out, SCRIPT "%s\">", id);
    client_markup_json(out, json);
    fputs("</script>\n", out);
}

void client_page_close(FILE *out)
{
    fputs("</body>\n</html>\n", out);
}

int client_page_end(FILE *out, const char *id, const char *json)
{
    if (json)
        client_page_data(out, id, json);
    client_page_close(out);
    return json ? 0 : -ENOMEM;
}

const char *client_page_find_data(const char *page, size_t size, const char *id, size_t *found)
{
    char begin[128];
    int length = snprintf(begin, sizeof begin, SCRIPT "%s\">", id);
    const char *start = memmem(page, size, begin, (size_t)length);
    if (!start)
        return NULL;
    start += length;
    const char *end = memmem(start, size - (size_t)(start - page), "</script>", strlen("</script>"));
    if (!end)
        return NULL;
    *found = (size_t)(end - start);
    return start;
}
