#include "engine/worker/confine.h"

#include "engine/base/hide_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* No new socket, and none of its own used to hand descriptors over: the front would have to close them, which
 * can take long. */
static const int network[] = {SCMP_SYS(socket),  SCMP_SYS(socketpair), SCMP_SYS(connect),
                              SCMP_SYS(bind),    SCMP_SYS(listen),     SCMP_SYS(accept),
                              SCMP_SYS(accept4), SCMP_SYS(sendmsg),    SCMP_SYS(sendmmsg)};

/* clone() is below, clone3() too. */
static const int processes[] = {SCMP_SYS(fork),
                                SCMP_SYS(vfork),
                                SCMP_SYS(execve),
                                SCMP_SYS(execveat),
                                SCMP_SYS(ptrace),
                                SCMP_SYS(process_vm_readv),
                                SCMP_SYS(process_vm_writev),
                                SCMP_SYS(process_madvise),
                                SCMP_SYS(process_mrelease),
                                SCMP_SYS(pidfd_open),
                                SCMP_SYS(pidfd_getfd),
                                SCMP_SYS(pidfd_send_signal),
                                SCMP_SYS(kcmp),
                                SCMP_SYS(tkill),
                                SCMP_SYS(rt_sigqueueinfo),
                                SCMP_SYS(rt_tgsigqueueinfo),
                                SCMP_SYS(setpriority),
                                SCMP_SYS(migrate_pages)};

/* What an administrator does, and what the kernel's weaknesses were found in most often. */
static const int administration[] = {SCMP_SYS(mount),
                                     SCMP_SYS(umount2),
                                     SCMP_SYS(pivot_root),
                                     SCMP_SYS(chroot),
                                     SCMP_SYS(move_mount),
                                     SCMP_SYS(open_tree),
                                     SCMP_SYS(fsopen),
                                     SCMP_SYS(fsconfig),
                                     SCMP_SYS(fsmount),
                                     SCMP_SYS(fspick),
                                     SCMP_SYS(mount_setattr),
                                     SCMP_SYS(unshare),
                                     SCMP_SYS(setns),
                                     SCMP_SYS(bpf),
                                     SCMP_SYS(perf_event_open),
                                     SCMP_SYS(userfaultfd),
                                     SCMP_SYS(io_uring_setup),
                                     SCMP_SYS(io_uring_enter),
                                     SCMP_SYS(io_uring_register),
                                     SCMP_SYS(keyctl),
                                     SCMP_SYS(add_key),
                                     SCMP_SYS(request_key),
                                     SCMP_SYS(init_module),
                                     SCMP_SYS(finit_module),
                                     SCMP_SYS(delete_module),
                                     SCMP_SYS(kexec_load),
                                     SCMP_SYS(kexec_file_load),
                                     SCMP_SYS(reboot),
                                     SCMP_SYS(swapon),
                                     SCMP_SYS(swapoff),
                                     SCMP_SYS(acct),
                                     SCMP_SYS(quotactl),
                                     SCMP_SYS(iopl),
                                     SCMP_SYS(ioperm),
                                     SCMP_SYS(open_by_handle_at),
                                     SCMP_SYS(name_to_handle_at),
                                     SCMP_SYS(fanotify_init),
                                     SCMP_SYS(syslog),
                                     SCMP_SYS(settimeofday),
                                     SCMP_SYS(clock_settime),
                                     SCMP_SYS(clock_adjtime),
                                     SCMP_SYS(adjtimex),
                                     SCMP_SYS(sethostname),
                                     SCMP_SYS(setdomainname)};

/* A call is refused when its argument compares like that. */
struct bounded {
    int call;
    struct scmp_arg_cmp when;
};

static int refuse(scmp_filter_ctx filter, const int *calls, size_t count)
{
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), calls[i], 0);
    return code;
}

static int refuse_bounded(scmp_filter_ctx filter)
{
    const scmp_datum_t self = (scmp_datum_t)getpid();
    const struct bounded calls[] = {
        /* Threads, and no processes. */
        {SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)},
        /* Signals to others. abort() and pthread_kill() signal the process itself. */
        {SCMP_SYS(kill), SCMP_A0(SCMP_CMP_NE, self)},
        {SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_NE, self)},
        {SCMP_SYS(prlimit64), SCMP_A0(SCMP_CMP_NE, 0)},
        {SCMP_SYS(move_pages), SCMP_A0(SCMP_CMP_NE, 0)},
        /* The kernel signals the owner of a descriptor: it could be made the front. */
        {SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, F_SETOWN)},
        {SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, F_SETOWN_EX)},
        {SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, F_SETSIG)},
        {SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, F_SETLEASE)},
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, FIOSETOWN)},
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, SIOCSPGRP)},
        /* Standard error may be a terminal, into which the worker could type. */
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, TIOCSTI)},
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, TIOCLINUX)},
        /* Memory of the front would be readable where it is readable for the user. */
        {SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_DUMPABLE)},
    };
    int code = 0;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0] && code == 0; i++)
        code = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), calls[i].call, 1, &calls[i].when);
    return code;
}

static int add_rules(scmp_filter_ctx filter)
{
    int code = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (code == 0)
        code = refuse(filter, network, sizeof network / sizeof network[0]);
    if (code == 0)
        code = refuse(filter, processes, sizeof processes / sizeof processes[0]);
    if (code == 0)
        code = refuse(filter, administration, sizeof administration / sizeof administration[0]);
    if (code == 0)
        code = refuse_bounded(filter);
    /* Its flags lie in memory, where a filter cannot look. The C library takes clone() where there is none.
     */
    if (code == 0)
        code = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return code;
}

/* Capabilities belong to a thread; those that are made later have what their maker has. */
static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[_LINUX_CAPABILITY_U32S_3];
    const uint32_t keep = 1u << CAP_DAC_READ_SEARCH | 1u << CAP_IPC_LOCK; /* both below 32 */
    if (syscall(SYS_capget, &header, have) != 0)
        return;
    for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        const uint32_t left = i == 0 ? keep : 0;
        have[i].effective &= left;
        have[i].permitted &= left;
        have[i].inheritable &= left;
    }
    syscall(SYS_capset, &header, have);
}

void convoy_worker_confine_early(void)
{
    convoy_hide_memory();
    drop_capabilities();
}

int convoy_worker_confine(struct convoy_error *error)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return convoy_fail(error, -errno, "the worker cannot give up new privileges: %s", strerror(errno));
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (filter == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the filter of system calls");
    int code = add_rules(filter);
    if (code == 0)
        code = seccomp_load(filter);
    seccomp_release(filter);
    return code == 0 ? 0 : convoy_fail(error, code, "system calls cannot be filtered: %s", strerror(-code));
}
