/* Limits that several parts use for the size of arrays. */
#ifndef CONVOY_ENGINE_BASE_LIMITS_H
#define CONVOY_ENGINE_BASE_LIMITS_H

#define CONVOY_MAX_LAYERS    512  /* layers that a profile can report; later ones count with the last */
#define CONVOY_MAX_CLASS_MAP 4096 /* values of a class activation map, which a slot reports */

#endif
