#include "engine/worker/confine.h"

#include "engine/base/hide_memory.h"
#include "engine/worker/confine_gpu.h"
#include "engine/worker/own_user.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
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

#define FCHMODAT2     452
#define SETXATTRAT    463
#define REMOVEXATTRAT 466
#define FILE_SETATTR  469

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

/* Landlock refuses to open a file, and minds none of these. fchmodat2(), setxattrat() and file_setattr() came
 * with Linux 6.6, 6.13 and 6.17; their numbers are those of all machines. */
static const int attributes[] = {SCMP_SYS(chmod),
                                 SCMP_SYS(fchmod),
                                 SCMP_SYS(fchmodat),
                                 SCMP_SYS(chown),
                                 SCMP_SYS(lchown),
                                 SCMP_SYS(fchown),
                                 SCMP_SYS(fchownat),
                                 SCMP_SYS(setxattr),
                                 SCMP_SYS(lsetxattr),
                                 SCMP_SYS(fsetxattr),
                                 SCMP_SYS(removexattr),
                                 SCMP_SYS(lremovexattr),
                                 SCMP_SYS(fremovexattr),
                                 SCMP_SYS(utime),
                                 SCMP_SYS(utimes),
                                 SCMP_SYS(futimesat),
                                 SCMP_SYS(utimensat),
                                 SCMP_SYS(truncate),
                                 FCHMODAT2,
                                 SETXATTRAT,
                                 REMOVEXATTRAT,
                                 FILE_SETATTR};

/* A call is refused when its argument compares like that. A filter sees 64 bits of what the kernel takes as
 * an int: what must be equal is compared in its 32 bits, or any bit above them would make it another value.
 */
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

static int refuse_each(scmp_filter_ctx filter, const struct bounded *calls, size_t count)
{
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), calls[i].call, 1, &calls[i].when);
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
        {SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, F_SETOWN)},
        {SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, F_SETOWN_EX)},
        {SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, F_SETSIG)},
        {SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, F_SETLEASE)},
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, FIOSETOWN)},
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, SIOCSPGRP)},
        /* Standard error may be a terminal, into which the worker could type. */
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, TIOCSTI)},
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, TIOCLINUX)},
        /* Memory of the front would be readable where it is readable for the user. */
        {SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_MASKED_EQ, UINT32_MAX, PR_SET_DUMPABLE)},
    };
    return refuse_each(filter, calls, sizeof calls / sizeof calls[0]);
}

/* Opening a file to read it must not empty it, which Landlock before version 3 does not see; and the access
 * mode 3, which serves ioctl() alone, asks for no right of Landlock. openat2() has its flags in memory, where
 * a filter cannot look; programs take openat() where it is not. */
static int refuse_attributes(scmp_filter_ctx filter)
{
    const scmp_datum_t cuts = O_TRUNC | O_ACCMODE;
    const struct bounded calls[] = {
        {SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, cuts, O_TRUNC | O_RDONLY)},
        {SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, cuts, O_TRUNC | O_RDONLY)},
        {SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, O_ACCMODE, O_ACCMODE)},
        {SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE, O_ACCMODE)},
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, FS_IOC_SETFLAGS)},
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, FS_IOC_FSSETXATTR)},
    };
    int code = refuse(filter, attributes, sizeof attributes / sizeof attributes[0]);
    if (code == 0)
        code = refuse_each(filter, calls, sizeof calls / sizeof calls[0]);
    if (code == 0)
        code = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(openat2), 0);
    return code;
}

static int add_rules(scmp_filter_ctx filter, bool files)
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
    if (code == 0 && files)
        code = refuse_attributes(filter);
    /* Its flags lie in memory, where a filter cannot look. The C library takes clone() where there is none.
     */
    if (code == 0)
        code = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return code;
}

const char *const convoy_confine_files_texts[] = {
    [CONVOY_FILES_AUTO] = "auto", [CONVOY_FILES_ON] = "on", [CONVOY_FILES_OFF] = "off", NULL};

int convoy_worker_confine_early(struct convoy_worker_confinement *confinement, struct convoy_error *error)
{
    if (!confinement->sandbox && confinement->user == NULL)
        return 0;
    int code = convoy_worker_take_own_user(confinement->user, &confinement->folders.write, error);
    if (code == 0)
        confinement->why_same_user = *error;
    if (confinement->sandbox)
        convoy_hide_memory();
    return code;
}

/* Whether auto means that files are confined. */
static bool confines_by_itself(const char *backend, struct convoy_error *why_not)
{
    return strcmp(backend, "cuda") != 0 ||
           convoy_worker_gpu_starts_confined("/dev", getenv("CUDA_MPS_PIPE_DIRECTORY"), "/tmp/nvidia-mps",
                                             why_not);
}

void convoy_worker_confine_before(struct convoy_worker_confinement *confinement, const char *backend)
{
    confinement->why_any_file.message[0] = '\0';
    if (!confinement->sandbox || confinement->files == CONVOY_FILES_OFF || confinement->landlock > 0)
        return;
    if (confinement->files == CONVOY_FILES_AUTO && !confines_by_itself(backend, &confinement->why_any_file))
        return;
    int abi = convoy_worker_confine_files(&confinement->folders, &confinement->why_any_file);
    confinement->landlock = abi > 0 ? abi : 0;
}

int convoy_worker_confine(const struct convoy_worker_confinement *confinement, struct convoy_error *error)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return convoy_fail(error, -errno, "the worker cannot give up new privileges: %s", strerror(errno));
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (filter == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the filter of system calls");
    int code = add_rules(filter, confinement->landlock > 0);
    if (code == 0)
        code = seccomp_load(filter);
    seccomp_release(filter);
    return code == 0 ? 0 : convoy_fail(error, code, "system calls cannot be filtered: %s", strerror(-code));
}

void convoy_worker_confined_text(const struct convoy_worker_confinement *confinement,
                                 char text[CONVOY_CONFINED_BYTES])
{
    char files[CONVOY_ERROR_BYTES + 32] = "any file";
    if (confinement->landlock > 0)
        snprintf(files, sizeof files, "no files but its own (Landlock %d)", confinement->landlock);
    else if (confinement->why_any_file.message[0] != '\0')
        snprintf(files, sizeof files, "any file: %s", confinement->why_any_file.message);
    snprintf(text, CONVOY_CONFINED_BYTES, "%s; user %u%s%s", files, (unsigned)geteuid(),
             confinement->why_same_user.message[0] != '\0' ? ": " : "", confinement->why_same_user.message);
}
