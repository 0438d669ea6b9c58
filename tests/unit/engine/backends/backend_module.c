/* Which module the program tests: the only source of the backends' tests that is compiled for each. */
#include "tests/unit/engine/backends/backend_harness.h"

const char backend_module[] = CONVOY_TEST_MODULE;
