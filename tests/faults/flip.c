/* A bit that flips in memory. The backends have no hook for it: the constant is found by what it looks like.
 */
#include "tests/faults/faults.h"

#include <stdio.h>
#include <string.h>

#define WORDS      8
#define MOST_BYTES ((size_t)4 << 30) /* what a sanitizer reserves is larger, and mostly not there */

static uint32_t inverted[WORDS]; /* so that the note is not found as the constant */
static bool noted;

void fault_flip_note(const struct convoy_graph *graph)
{
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct convoy_tensor *tensor = &graph->tensors[i];
        /* A vector is kept as it is, matrices are laid out in other ways. */
        if (tensor->data == NULL || tensor->shape.rank != 1 || tensor->shape.dims[0] < WORDS ||
            tensor->data[0] == tensor->data[1])
            continue;
        memcpy(inverted, tensor->data, sizeof inverted);
        for (int k = 0; k < WORDS; k++)
            inverted[k] = ~inverted[k];
        noted = true;
    }
}

__attribute__((no_sanitize("address", "thread", "undefined"))) static int flip_between(uint32_t *word,
                                                                                       const uint32_t *end)
{
    int found = 0;
    for (; word + WORDS <= end; word++) {
        int same = 0;
        while (same < WORDS && word[same] == ~inverted[same])
            same++;
        if (same == WORDS) {
            word[0] ^= 1;
            found++;
        }
    }
    return found;
}

int fault_flip(void)
{
    char line[512], rights[5];
    unsigned long begin, end;
    int found = 0;
    FILE *maps = noted ? fopen("/proc/self/maps", "r") : NULL;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%lx-%lx %4s", &begin, &end, rights) == 3 && strcmp(rights, "rw-p") == 0 &&
            strstr(line, "[stack") == NULL && end - begin < MOST_BYTES)
            found += flip_between((uint32_t *)begin, (const uint32_t *)end);
    if (maps != NULL)
        fclose(maps);
    return found;
}
