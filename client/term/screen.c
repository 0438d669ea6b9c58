#include "client/term/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "client/term/clock.h"

#define ENTER "\033[?1049h\033[?25l\033[2J" /* alternate screen, no cursor, empty */
#define LEAVE "\033[0m\033[?25h\033[?1049l"

/* State that signal handlers use. */
static volatile sig_atomic_t taken, keys_changed, asked_to_end, resized, asked_to_stop, continued;
static struct termios before;

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT};
static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};

static void write_all(const char *text, size_t size)
{
    while (size > 0) {
        ssize_t written = write(STDOUT_FILENO, text, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* the terminal was closed; there is nothing left to restore */
        text += written;
        size -= (size_t)written;
    }
}

/* Async-signal-safe: calls only write and tcsetattr. */
static void leave(void)
{
    if (!taken)
        return;
    taken = 0;
    write_all(LEAVE, strlen(LEAVE));
    if (keys_changed)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    keys_changed = 0;
}

static void enter(void)
{
    /* Keys are read at once and not echoed; Ctrl-C and Ctrl-Z remain signals. */
    if (tcgetattr(STDIN_FILENO, &before) == 0) {
        struct termios keys = before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        keys.c_cc[VMIN] = 1;
        keys.c_cc[VTIME] = 0;
        keys_changed = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
    }
    taken = 1;
    write_all(ENTER, strlen(ENTER));
}

static void note(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else if (number == SIGTSTP)
        asked_to_stop = 1;
    else if (number == SIGCONT)
        continued = 1;
    else if (!asked_to_end || asked_to_end == SIGINT)
        asked_to_end = number;
}

/* SA_RESETHAND has removed the handler: the signal now has its default action. */
static void crash(int number)
{
    leave();
    raise(number);
}

static void handle(const int *numbers, size_t count, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < count; i++)
        sigaction(numbers[i], &action, NULL);
}

void client_screen_open(void)
{
    /* Without SA_RESTART, so that waiting calls return. */
    handle(watched, sizeof watched / sizeof *watched, note, 0);
    handle(crashes, sizeof crashes / sizeof *crashes, crash, (int)SA_RESETHAND);
    atexit(leave);
    enter();
}

void client_screen_close(void)
{
    leave();
    if (!asked_to_end || asked_to_end == SIGINT)
        return;
    int number = asked_to_end;
    handle(&number, 1, SIG_DFL, 0);
    raise(number);
}

/* Reads the keys that were pressed. */
static void take_keys(void)
{
    char keys[64];
    ssize_t count = read(STDIN_FILENO, keys, sizeof keys);
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN))
        asked_to_end = SIGHUP; /* the terminal was closed */
    for (ssize_t i = 0; i < count; i++)
        if ((keys[i] == 'q' || keys[i] == 'Q') && !asked_to_end)
            asked_to_end = SIGINT;
}

/* Restores the terminal for the shell while the process is stopped. */
static void stop(void)
{
    asked_to_stop = 0;
    leave();
    kill(getpid(), SIGSTOP);
    continued = 1;
}

enum client_screen_event client_screen_wait(double deadline)
{
    struct pollfd keys = {.fd = keys_changed ? STDIN_FILENO : -1, .events = POLLIN};
    enum client_screen_event event = CLIENT_SCREEN_TIME;
    sigset_t blocked, open;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        sigaddset(&blocked, watched[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &open);
    for (;;) {
        if (asked_to_end) {
            event = CLIENT_SCREEN_END;
            break;
        }
        if (asked_to_stop)
            stop();
        if (continued || resized) {
            if (continued) { /* the shell used the terminal */
                leave();
                enter();
            }
            continued = resized = 0;
            event = CLIENT_SCREEN_CHANGED;
            break;
        }
        double left = deadline - client_clock_now();
        if (left <= 0)
            break;
        struct timespec time = client_clock_timespec(left);
        int ready = ppoll(&keys, 1, &time, &open);
        if (ready > 0)
            take_keys();
    }
    pthread_sigmask(SIG_SETMASK, &open, NULL);
    return event;
}

bool client_screen_ending(void *unused)
{
    (void)unused;
    struct pollfd keys = {.fd = keys_changed ? STDIN_FILENO : -1, .events = POLLIN};
    if (poll(&keys, 1, 0) > 0)
        take_keys();
    return asked_to_end != 0;
}

void client_screen_size(int *rows, int *columns)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
    *rows = known ? size.ws_row : 24;
    *columns = known ? size.ws_col : 80;
}

void client_screen_show(const char *text)
{
    char *drawn = NULL;
    size_t size = 0;
    int rows, columns;
    client_screen_size(&rows, &columns);
    FILE *stream = open_memstream(&drawn, &size);
    if (!stream)
        return;
    client_screen_fit(stream, text, rows, columns);
    if (fclose(stream) == 0)
        write_all(drawn, size); /* in one write, so that no partial drawing is visible */
    free(drawn);
}
