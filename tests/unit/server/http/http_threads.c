#include "server/http/http_thread.h"

#include <criterion/criterion.h>

Test(http_threads, leave_a_quarter_of_many_cores_to_workers_and_decoders)
{
    static const uint32_t cores_and_threads[][2] = {{1, 1}, {2, 2},   {7, 7},  {8, 6},
                                                    {9, 7}, {16, 12}, {32, 24}};
    for (size_t i = 0; i < sizeof cores_and_threads / sizeof cores_and_threads[0]; i++)
        cr_assert_eq(convoy_http_threads_for(cores_and_threads[i][0]), cores_and_threads[i][1], "%u cores",
                     cores_and_threads[i][0]);
}
