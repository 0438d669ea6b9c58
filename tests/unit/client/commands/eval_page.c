/* The page of `convoy eval --report`, without a server: results of all sizes, and texts that want to break
 * out. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/eval.h"
#include "tests/unit/client/commands/balanced.h"
#include "tests/unit/client/commands/page_text.h"

static struct client_eval_result result;
static char *page;

/* A result of that many classes without an image. */
static void begin(size_t classes)
{
    memset(&result, 0, sizeof result);
    result.requests = 1;
    snprintf(result.model, sizeof result.model, "net");
    snprintf(result.version, sizeof result.version, "3");
    snprintf(result.device, sizeof result.device, "cpu");
    result.score.classes = classes;
    result.score.labels = calloc(classes + 1, sizeof *result.score.labels);
    result.score.confusion = calloc(classes * classes + 1, sizeof *result.score.confusion);
    cr_assert(result.score.labels && result.score.confusion);
    for (size_t i = 0; i < classes; i++)
        cr_assert_gt(asprintf(&result.score.labels[i], "class-%zu", i), 0);
}

static void count_images(size_t truth, size_t answer, size_t images)
{
    result.score.confusion[truth * result.score.classes + answer] += images;
    for (size_t i = 0; i < images; i++)
        client_calibration_count(&result.calibration, 0.75, truth == answer);
}

static void add_mistake(long truth, long answer, double probability, const char *name, const void *picture,
                        size_t size)
{
    struct client_mistake mistake = {truth, answer, probability, .picture = (void *)picture, .size = size};
    snprintf(mistake.name, sizeof mistake.name, "%s", name);
    cr_assert_eq(client_mistakes_add(&result.mistakes, &mistake), 0);
}

static void render(const char *set, const char *server)
{
    size_t size;
    FILE *out = open_memstream(&page, &size);
    const struct client_eval_page content = {&result, set, server, "2026-01-02 03:04 +0000"};
    cr_assert_eq(client_eval_page_write(out, &content), 0);
    fclose(out);
    cr_assert_eq(strncmp(page, "<!DOCTYPE html>\n", 16), 0);
    is_balanced(page + 16);
    char *data = strstr(page, "<script type=\"application/json\" id=\"result\">");
    cr_assert_not_null(data);
    cr_expect_null(strstr(data + 1, "<script"));
    /* What is no number is written nowhere. */
    *data = '\0';
    cr_expect(!strstr(page, "nan") && !strstr(page, "inf "), "%.3000s", page);
    cr_expect_null(strstr(page, "<script"));
    *data = '<';
    client_eval_clear(&result);
}

static size_t count(const char *part)
{
    return count_in(page, part);
}

static void has(const char *part)
{
    has_in(page, part);
}

Test(client_eval_page, numbers)
{
    begin(3);
    count_images(0, 0, 3);
    count_images(1, 1, 1);
    count_images(1, 0, 1);
    add_mistake(1, 0, 0.98765, "a/1.png", "\x89PNG\r\n\x1A\nrest", 12);
    render("photos/", "convoyd 9.8");
    has("<title>Accuracy of net version 3</title>");
    has("<td>convoyd 9.8</td>");
    has("<td>photos/</td>");
    has("<td>2026-01-02 03:04 +0000</td>");
    has("80.00 %: 4 of 5 images are right. The 95 % interval is 37.55 to 96.38 %.");
    has("1 of the model&#39;s 3 classes have no image in the set.");
    has("<td>class-1</td>\n<td class=\"number\">2</td>\n<td class=\"number\">1</td>\n<td "
        "class=\"number\">50.00 %</td>\n"
        "<td class=\"number\">9.45 to 90.55 %</td>");
    /* The worst first. */
    cr_expect(strstr(page, "<td>class-1</td>") < strstr(page, "<td>class-0</td>"));
    has("class-1 taken for class-0: 1 of 2 (50.0 %)");
    has("is 5.00 %"); /* 80 % are right of answers of 75 % */
    has("<td>70 to 80 %</td>\n<td class=\"number\">5</td>\n<td class=\"number\">75.00 %</td>\n<td "
        "class=\"number\">80.00 %</td>");
    has("<img src=\"data:image/png;base64,iVBORw0KGgpyZXN0\"");
    has("<strong class=\"true\">class-1</strong>\ntaken for\n<strong class=\"given\">class-0</strong>");
    has("98.77 %");
    has("a/1.png");
    has("\"accuracy\":0.8");
    free(page);
}

Test(client_eval_page, nothing_was_classified)
{
    static const size_t classes[] = {0, 1, 1000};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        begin(classes[i]);
        render("", "");
        has("No image was classified.");
        has("There are no mistakes.");
        has("<td>unknown</td>");
        cr_expect(count("<figure>") == 0 && count("calibration-error") == 0);
        free(page);
    }
}

Test(client_eval_page, one_class)
{
    begin(1);
    count_images(0, 0, 7);
    render("photos/", "convoyd 9.8");
    has("100.00 %: 7 of 7");
    has("There are no mistakes.");
    cr_expect(count("<figure>") == 0 && count("class=\"cell\"") == 1);
    free(page);
}

Test(client_eval_page, a_thousand_classes)
{
    begin(1000);
    for (size_t i = 0; i < 1000; i++) {
        count_images(i, i, i);
        if (i < 999)
            count_images(i, i + 1, 1000 - i);
    }
    render("photos/", "convoyd 9.8");
    has("The 50 classes of the lowest accuracy, out of 1000 that have images.");
    has("The most frequent mistakes, at most 50.");
    has("<td>class-0</td>\n<td>class-1</td>\n<td class=\"number\">1000</td>\n<td class=\"number\">100.0 "
        "%</td>");
    cr_expect_eq(count("<td>class-49</td>"), 3); /* a class, and twice in the mistakes */
    cr_expect_eq(count("<td>class-50</td>"), 1); /* what class-49 is taken for */
    cr_expect_eq(count("<td>class-51</td>"), 0);
    cr_expect_eq(count("class=\"cell\""), 0);
    free(page);
}

Test(client_eval_page, pictures_that_no_browser_is_given)
{
    static char large[CLIENT_MISTAKES_PICTURE + 1] = "\xFF\xD8\xFF";
    begin(2);
    count_images(0, 1, 4);
    add_mistake(0, 1, 0.9, "fits.jpg", large, CLIENT_MISTAKES_PICTURE);
    add_mistake(0, 1, 0.8, "large.jpg", large, sizeof large);
    add_mistake(0, 1, 0.7, "evil.svg", "<svg onload='x()'/>", 19);
    add_mistake(0, 1, NAN, "odd.bmp", "BM", 2);
    render("photos/", "convoyd 9.8");
    cr_expect_eq(count("<img "), 1);
    cr_expect_eq(count("<figure>"), 4);
    has("the picture is too large");
    cr_expect_eq(count("no picture that a browser shows"), 2);
    has("large.jpg");
    has("evil.svg");
    cr_expect_eq(count("onload"), 0);
    cr_expect_eq(count("class=\"probability\""), 3);
    free(page);
}

#define EVIL "\"'></td><script>alert(1)</script><img src=x onerror=y>\xFF\x1B&"

Test(client_eval_page, hostile_texts)
{
    static const size_t classes[] = {2, 60};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        begin(classes[i]);
        for (size_t c = 0; c < 2; c++) {
            free(result.score.labels[c]);
            result.score.labels[c] = strdup(EVIL);
        }
        count_images(0, 1, 1);
        count_images(1, 1, 1);
        snprintf(result.model, sizeof result.model, EVIL);
        snprintf(result.version, sizeof result.version, EVIL);
        snprintf(result.device, sizeof result.device, EVIL);
        snprintf(result.failed_sample, sizeof result.failed_sample, EVIL);
        result.failed = 1;
        add_mistake(0, 1, 0.5, EVIL, "GIF89a", 6);
        render(EVIL, EVIL);
        cr_expect(count("<img ") == 1 && count("<script") == 1 && count("</script") == 1);
        cr_expect(!strchr(page, '\x1B') && !strchr(page, '\xFF'));
        has("&lt;script&gt;alert(1)&lt;/script&gt;");
        free(page);
    }
}

#define LONG64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Labels have no bound: what is longer than any buffer is whole in tables and cut in charts. */
Test(client_eval_page, long_labels)
{
    static const char label[] = LONG64 LONG64 LONG64 LONG64 LONG64 LONG64 LONG64 LONG64 LONG64 LONG64 LONG64
        LONG64 LONG64 LONG64 LONG64 LONG64 LONG64 LONG64 "end";
    begin(2);
    free(result.score.labels[0]);
    result.score.labels[0] = strdup(label);
    count_images(0, 1, 1);
    add_mistake(0, 1, 0.5, "a", "GIF89a", 6);
    render("photos/", "convoyd 9.8");
    has("<td>0123456789abcdef");
    has("0123456789abcdefend</td>");
    has("0123456789abcdefend</strong>");
    free(page);
}
