/* How the log tells a process's end. */
#include "server/workers/worker_exit_text.h"

#include <criterion/criterion.h>

/* As Linux makes them: a signal's number, or the exit status in the second byte. */
Test(worker_exit_text, a_signal_and_a_status)
{
    char text[64];
    convoy_worker_exit_text(9, text, sizeof text);
    cr_assert_str_eq(text, "killed by signal 9 (Killed)");
    convoy_worker_exit_text(9 | 0x80, text, sizeof text);
    cr_assert_str_eq(text, "killed by signal 9 (Killed)", "it dumped its core");
    convoy_worker_exit_text(3 << 8, text, sizeof text);
    cr_assert_str_eq(text, "exit status 3");
}

Test(worker_exit_text, it_is_cut_to_the_room_that_there_is)
{
    char text[] = "---------";
    convoy_worker_exit_text(3 << 8, text, 5);
    cr_assert_str_eq(text, "exit");
    cr_assert_eq(text[5], '-');
}
