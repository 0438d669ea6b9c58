/* Which module the program tests: the only source of the backends' tests that is compiled for each. */
#include "tests/unit/engine/backends/backend_harness.h"

const char backend_module[] = CONVOY_TEST_MODULE;

/* The stand-ins for nvJPEG, where the module is that of the emulated GPU. */
#ifndef CONVOY_TEST_NVJPEG
#define CONVOY_TEST_NVJPEG         ""
#define CONVOY_TEST_NVJPEG_LACKING ""
#endif
const char backend_nvjpeg[] = CONVOY_TEST_NVJPEG;
const char backend_nvjpeg_lacking[] = CONVOY_TEST_NVJPEG_LACKING;
