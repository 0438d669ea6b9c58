/* What a model that took the worker over could see of others. */
#include "tests/faults/faults.h"

#include "engine/ipc/channel.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define PIXELS 256 /* of an image of one colour that are looked for */
#define MODELS 8   /* that are claimed */

void fault_spy_begin(const struct convoy_net_info *info, bool others)
{
    for (uint32_t model = 0; model < MODELS && others; model++) {
        char line[512];
        int length = snprintf(line, sizeof line,
                              "{\"type\":\"loaded\",\"model\":%u,\"channels\":%u,\"height\":%u,\"width\":%u,"
                              "\"input\":\"image\","
                              "\"outputs\":[{\"name\":\"y\",\"elements\":%u,\"dims\":[%u]}],"
                              "\"weight_bytes\":1,\"precision\":\"fp32\",\"layers\":[]}\n",
                              model, info->channels, info->height, info->width, info->outputs_per_row,
                              info->outputs_per_row);
        ssize_t sent = send(CONVOY_FD_CONTROL, line, (size_t)length, MSG_NOSIGNAL);
        (void)sent;
    }
}

void fault_spy_look(const unsigned pixel[3], const char *file)
{
    uint8_t image[3 * PIXELS];
    struct stat status;
    bool seen = false;
    FILE *report = fopen(file, "a");
    for (int i = 0; i < 3 * PIXELS; i++)
        image[i] = (uint8_t)pixel[i % 3];
    if (report == NULL || fstat(CONVOY_FD_MEMORY, &status) != 0)
        return;
    size_t bytes = (size_t)status.st_size;
    void *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, CONVOY_FD_MEMORY, 0);
    if (memory != MAP_FAILED) {
        seen = memmem(memory, bytes, image, sizeof image) != NULL;
        munmap(memory, bytes);
    }
    fprintf(report, "%s\n", seen ? "seen" : "nothing");
    fclose(report);
}
