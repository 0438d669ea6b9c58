#include "engine/base/hide_memory.h"

#include <sys/prctl.h>

void convoy_hide_memory(void)
{
#ifndef __SANITIZE_ADDRESS__
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}
