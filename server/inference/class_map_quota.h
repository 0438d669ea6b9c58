/* How many requests may ask for a class activation map at a time. Each takes a slot of its own, for as long
 * as a network is loaded for it. Process-wide, lock-free, any thread. */
#ifndef CONVOY_SERVER_CLASS_MAP_QUOTA_H
#define CONVOY_SERVER_CLASS_MAP_QUOTA_H

#include <stdbool.h>

#define CONVOY_CLASS_MAP_REQUESTS 4

/* Counts a request; false, and nothing counted, when there are too many. */
bool convoy_class_map_take(void);
/* One that was counted has ended. */
void convoy_class_map_give(void);

#endif
