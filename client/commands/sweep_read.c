/* Reads the report of a sweep from a file: the page, or the JSON alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/chart/page.h"
#include "client/commands/sweep.h"
#include "client/lib/failure.h"
#include "client/lib/file.h"

/* Finds the JSON; a page begins with '<'. NULL when there is none. */
static const char *find_json(const char *bytes, size_t size, size_t *found)
{
    size_t start = 0;
    while (start < size && strchr(" \t\r\n", bytes[start]) && bytes[start])
        start++;
    if (start < size && bytes[start] == '<')
        return client_page_find_data(bytes, size, "sweep", found);
    *found = size - start;
    return bytes + start;
}

int client_sweep_read(const char *path, struct client_sweep *sweep, struct convoy_failure *failure)
{
    struct convoy_failure inner = {0};
    void *bytes = NULL;
    size_t size = 0, found = 0;
    *sweep = (struct client_sweep){0};
    int status = client_file_read_most(path, CLIENT_SWEEP_FILE_BYTES, &bytes, &size, failure);
    if (status)
        return status;
    const char *json = find_json(bytes, size, &found);
    cJSON *document = json ? cJSON_ParseWithLength(json, found) : NULL;
    if (size == 0)
        status = client_fail_with(&inner, -EBADMSG, "it is empty");
    else if (!json)
        status = client_fail_with(&inner, -EBADMSG,
                                  "it is a page without the numbers of `convoy bench --sweep`, or cut off");
    else if (!document)
        status = client_fail_with(&inner, -EBADMSG,
                                  "it is neither a page of `convoy bench --sweep` nor JSON, or cut off");
    else
        status = client_sweep_from_json(document, sweep, &inner);
    cJSON_Delete(document);
    free(bytes);
    return status ? client_fail_with(failure, status, "'%s' cannot be compared: %s", path, inner.message) : 0;
}
