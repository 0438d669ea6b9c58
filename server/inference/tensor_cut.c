#include "server/inference/tensor_cut.h"

#include "engine/base/json_space.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Where the walk is, and what of the text is in the header already. Every step leaves at <= end; one that
 * finds a mistake sets bad. */
struct walk {
    const char *text, *at, *end, *copied;
    bool bad;
    struct convoy_tensor_cut *cut;
};

static void skip_space(struct walk *walk)
{
    walk->at = convoy_json_skip_space(walk->at, walk->end);
}

/* The next character that is no space, if it is c, is passed over. */
static bool take(struct walk *walk, char c)
{
    skip_space(walk);
    if (walk->at == walk->end || *walk->at != c)
        return false;
    walk->at++;
    return true;
}

static void expect(struct walk *walk, char c)
{
    if (!take(walk, c))
        walk->bad = true;
}

static void skip_string(struct walk *walk)
{
    for (walk->at++; walk->at < walk->end; walk->at++) {
        if (*walk->at == '"') {
            walk->at++;
            return;
        }
        if (*walk->at == '\\' && walk->at + 1 < walk->end)
            walk->at++;
    }
    walk->bad = true;
}

/* Brackets are counted, not matched: the parser that comes after minds which is which. */
static void skip_value(struct walk *walk)
{
    static const bool special[256] = {['"'] = true, ['['] = true, [']'] = true, ['{'] = true, ['}'] = true};
    size_t depth = 0;

    skip_space(walk);
    const char *begun = walk->at;
    while (walk->at < walk->end) {
        /* Most of a tensor: what is between two brackets. */
        while (depth > 0 && !special[(unsigned char)*walk->at] && walk->at + 1 < walk->end)
            walk->at++;
        char c = *walk->at;
        if (c == '"') {
            skip_string(walk);
        } else if (c == '[' || c == '{') {
            depth++;
            walk->at++;
        } else if (depth > 0 && (c == ']' || c == '}')) {
            depth--;
            walk->at++;
        } else if (depth > 0 || (c != ',' && c != ']' && c != '}')) {
            walk->at++;
            continue; /* a number or a word may go on */
        }
        if (depth == 0 || walk->bad)
            break;
    }
    walk->bad = walk->bad || depth > 0 || walk->at == begun;
}

/* A member's key and its colon; true when it is name, as it is usually written. */
static bool key_is(struct walk *walk, const char *name)
{
    skip_space(walk);
    const char *begun = walk->at;
    if (begun == walk->end || *begun != '"') {
        walk->bad = true;
        return false;
    }
    skip_string(walk);
    size_t length = (size_t)(walk->at - begun);
    expect(walk, ':');
    return !walk->bad && length == strlen(name) + 2 && memcmp(begun + 1, name, length - 2) == 0;
}

static void put(struct walk *walk, const char *from, size_t length)
{
    memcpy(walk->cut->header + walk->cut->header_length, from, length);
    walk->cut->header_length += length;
}

/* The value becomes 0 in the header, which is never longer. */
static void cut_value(struct walk *walk, bool first)
{
    skip_space(walk);
    const char *begun = walk->at;
    skip_value(walk);
    if (walk->bad)
        return;
    if (first && walk->cut->data_length == 0) {
        walk->cut->data = (size_t)(begun - walk->text);
        walk->cut->data_length = (size_t)(walk->at - begun);
    }
    put(walk, walk->copied, (size_t)(begun - walk->copied));
    put(walk, "0", 1);
    walk->copied = walk->at;
}

static void walk_input(struct walk *walk, bool first)
{
    if (!take(walk, '{')) {
        skip_value(walk);
        return;
    }
    if (take(walk, '}'))
        return;
    do {
        if (key_is(walk, "data"))
            cut_value(walk, first);
        else if (!walk->bad)
            skip_value(walk);
    } while (!walk->bad && take(walk, ','));
    expect(walk, '}');
}

static void walk_inputs(struct walk *walk)
{
    bool first = true;

    if (!take(walk, '[')) {
        skip_value(walk);
        return;
    }
    if (take(walk, ']'))
        return;
    do {
        walk_input(walk, first);
        first = false;
    } while (!walk->bad && take(walk, ','));
    expect(walk, ']');
}

static int cut_from(const char *text, size_t length, const char *key, struct convoy_tensor_cut *cut)
{
    struct walk walk = {.text = text, .at = text, .end = text + length, .copied = text, .cut = cut};

    *cut = (struct convoy_tensor_cut){.header = malloc(length + 1)};
    if (cut->header == NULL)
        return -ENOMEM;
    if (take(&walk, '{')) {
        do {
            if (!key_is(&walk, key)) {
                if (!walk.bad)
                    skip_value(&walk);
            } else if (strcmp(key, "inputs") == 0) {
                walk_inputs(&walk);
            } else {
                cut_value(&walk, true);
            }
        } while (!walk.bad && take(&walk, ','));
    }
    put(&walk, walk.copied, (size_t)(walk.end - walk.copied));
    return 0;
}

int convoy_tensor_cut(const char *text, size_t length, struct convoy_tensor_cut *cut)
{
    return cut_from(text, length, "inputs", cut);
}

int convoy_tensor_cut_instances(const char *text, size_t length, struct convoy_tensor_cut *cut)
{
    return cut_from(text, length, "instances", cut);
}
