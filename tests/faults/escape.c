/* What a model that took the worker over could try. */
#include "tests/faults/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Each returns a negative number, with EPERM or EACCES, where the way is closed. None changes anything where
 * it is open, whoever runs the test: what cannot be tried without an effect gets an argument that the kernel
 * refuses after it let the call in. */

static long make_socket(void)
{
    return socket(AF_INET, SOCK_STREAM, 0);
}

static long make_local_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM, 0);
}

static long start_process(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return child > 0 ? waitpid(child, NULL, 0) : -1;
}

static long run_program(void)
{
    return execl("/nonexistent/program", "program", (char *)NULL);
}

static long trace_front(void)
{
    return ptrace(PTRACE_DETACH, getppid(), NULL, NULL); /* it is not traced: ESRCH */
}

static long read_front(void)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)make_socket, 1};
    return process_vm_readv(getppid(), &here, 1, &there, 1, 0);
}

static long open_front(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", getppid());
    return open(path, O_RDWR);
}

static long name_front(void)
{
    return syscall(SYS_pidfd_open, getppid(), 0);
}

static long signal_front(void)
{
    return kill(getppid(), 0);
}

static long signal_front_by_thread(void)
{
    return syscall(SYS_tgkill, getppid(), getppid(), 0);
}

static long signal_front_by_descriptor(void)
{
    return fcntl(STDERR_FILENO, F_SETOWN, getppid());
}

/* The kernel takes the command as 32 bits, a filter sees 64. */
static long signal_front_by_long_command(void)
{
    return syscall(SYS_fcntl, STDERR_FILENO, (1ul << 32) | F_SETOWN, getppid());
}

static long type_by_long_command(void)
{
    return syscall(SYS_ioctl, -1, (1ul << 32) | TIOCSTI, ""); /* no terminal: EBADF */
}

static long limit_front(void)
{
    return syscall(SYS_prlimit64, getppid(), 7 /* RLIMIT_NOFILE */, NULL, NULL);
}

static long send_descriptor(void)
{
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = '\n';
    struct iovec bytes = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &(int){STDERR_FILENO}, sizeof(int));
    return sendmsg(5, &message, MSG_DONTWAIT | MSG_NOSIGNAL); /* CONVOY_FD_DOORBELL */
}

static long leave_namespace(void)
{
    return unshare(0);
}

/* Without a target the kernel mounts nothing, also for root and without confinement. */
static long mount_folder(void)
{
    return mount(NULL, NULL, NULL, 0, NULL);
}

static long make_ring(void)
{
    char parameters[120] = {0};
    return syscall(SYS_io_uring_setup, 0, parameters); /* no entries: EINVAL */
}

/* Where files are confined. None of these is the worker's business, and root may do all of them. */
static long read_passwords(void)
{
    return open("/etc/passwd", O_RDONLY);
}

static long list_shared_memory(void)
{
    return open("/dev/shm", O_RDONLY | O_DIRECTORY);
}

static long make_file(void)
{
    return open("/tmp", O_TMPFILE | O_RDWR, 0600);
}

/* A program that runs cannot be written: ETXTBSY. */
static long write_program(void)
{
    return open("/proc/self/exe", O_WRONLY);
}

static long change_mode(void)
{
    return chmod("/nonexistent/file", 0600);
}

static long change_owner(void)
{
    return fchownat(AT_FDCWD, "/nonexistent/file", 0, 0, 0);
}

static long change_times(void)
{
    return utimensat(AT_FDCWD, "/nonexistent/file", NULL, 0);
}

static long change_attribute(void)
{
    return setxattr("/nonexistent/file", "user.convoy", "", 0, 0);
}

static long cut_file(void)
{
    return truncate("/nonexistent/file", 0);
}

/* The access mode 3 is for ioctl() alone, and asks for no right of Landlock. */
static long open_for_ioctl(void)
{
    return open("/nonexistent/file", O_ACCMODE);
}

static long set_flags(void)
{
    return ioctl(-1, FS_IOC_SETFLAGS, &(int){0});
}

static long cut_file_by_reading(void)
{
    return open("/nonexistent/file", O_RDONLY | O_TRUNC);
}

int fault_escape(struct convoy_error *error)
{
    static const struct {
        const char *name;
        long (*try)(void);
    } ways[] = {{"socket", make_socket},
                {"local socket", make_local_socket},
                {"fork", start_process},
                {"ptrace", trace_front},
                {"process_vm_readv", read_front},
                {"mem", open_front},
                {"pidfd", name_front},
                {"kill", signal_front},
                {"tgkill", signal_front_by_thread},
                {"owner", signal_front_by_descriptor},
                {"long owner", signal_front_by_long_command},
                {"long ioctl", type_by_long_command},
                {"prlimit", limit_front},
                {"descriptor", send_descriptor},
                {"io_uring", make_ring},
                {"unshare", leave_namespace},
                {"mount", mount_folder},
                {"exec", run_program},
                {"read", read_passwords},
                {"shm", list_shared_memory},
                {"make", make_file},
                {"write", write_program},
                {"chmod", change_mode},
                {"chown", change_owner},
                {"utimes", change_times},
                {"setxattr", change_attribute},
                {"truncate", cut_file},
                {"O_TRUNC", cut_file_by_reading},
                {"mode 3", open_for_ioctl},
                {"flags", set_flags}};
    char open_ways[500] = "none";
    size_t used = 0;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        long result = ways[i].try();
        /* Also where the kernel looked at the call and only did not like an argument. */
        if ((result >= 0 || (errno != EPERM && errno != EACCES)) && used < sizeof open_ways)
            used += (size_t)snprintf(open_ways + used, sizeof open_ways - used, "%s%s", used > 0 ? ", " : "",
                                     ways[i].name);
    }
    return convoy_fail(error, -EPERM, "ways out: %s", open_ways);
}
