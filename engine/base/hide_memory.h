/* Protects the process from others of the same user. */
#ifndef CONVOY_ENGINE_BASE_HIDE_MEMORY_H
#define CONVOY_ENGINE_BASE_HIDE_MEMORY_H

/* Other processes of the same user can neither read nor write this one's memory any more (/proc/PID/mem,
 * ptrace), nor take its descriptors, and the kernel writes no core file. Not in builds with the address
 * sanitizer: its search for leaks attaches to the process as a debugger would. */
void convoy_hide_memory(void);

#endif
