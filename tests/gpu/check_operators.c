/* The checks of all kernels but convolutions, alone: ./check_operators [SEED]. */
#include "kernels/check_random.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    int failures = convoy_check_gemm(seed) + convoy_check_operators(seed);
    printf("%d failed\n", failures);
    return failures > 0;
}
