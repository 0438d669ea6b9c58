#include "server/daemon/held.h"

static int take(void *context, const char *key)
{
    return convoy_link_take(context, key);
}

static void hold(void *context, const char *key, int fd)
{
    convoy_link_hold(context, key, fd);
}

static void drop(void *context, const char *key)
{
    convoy_link_drop(context, key);
}

static void drop_rest(void *context, const char *prefix)
{
    convoy_link_drop_rest(context, prefix);
}

struct convoy_held_sockets convoy_held_by(struct convoy_link *link)
{
    return (struct convoy_held_sockets){link, take, hold, drop, drop_rest};
}
