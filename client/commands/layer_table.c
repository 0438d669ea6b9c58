#include "client/commands/layer_table.h"

#include <stdio.h>
#include <string.h>

#define BAR_CELLS  24
#define NAME_CELLS 44

/* Width of "name (kernel)"; a longer one than NAME_CELLS moves only its own bar. */
static int cells_of(const struct convoy_layer *layer)
{
    size_t length = strlen(layer->name) + strlen(layer->kernel);
    return length < NAME_CELLS ? (int)length : NAME_CELLS;
}

void client_layer_table_print(const struct client_terminal *terminal, const struct convoy_layer *layers,
                              size_t count)
{
    double sum = 0;
    int width = 0;
    for (size_t i = 0; i < count; i++) {
        sum += layers[i].us;
        width = cells_of(&layers[i]) > width ? cells_of(&layers[i]) : width;
    }
    puts("        us  share  layer (kernel)");
    for (size_t i = 0; i < count; i++) {
        double share = sum > 0 ? layers[i].us / sum : 0;
        printf("%10.1f %5.1f%%  ", layers[i].us, share * 100);
        client_print_safely(stdout, layers[i].name);
        fputs(" (", stdout);
        client_print_safely(stdout, layers[i].kernel);
        putchar(')');
        if (terminal->terminal) /* align the bars */
            printf("%*s", width - cells_of(&layers[i]) > 0 ? width - cells_of(&layers[i]) : 0, "");
        client_print_bar(stdout, terminal, share, BAR_CELLS);
        putchar('\n');
    }
    printf("%10.1f         all layers\n", sum);
}
