/* Files are replaced whole or not at all, and nothing is left beside them. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/data/output_file.h"

static char folder[] = "/tmp/convoy-output-XXXXXX";
static struct convoy_failure failure;

static void enter(void)
{
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
}

static size_t files(void)
{
    size_t count = 0;
    DIR *entries = opendir(".");
    cr_assert_not_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        count += entry->d_name[0] != '.';
    closedir(entries);
    return count;
}

static void leave(void)
{
    static const char *const names[] = {"a", "b", "link"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
    cr_assert_eq(rmdir(folder), 0, "something is left: %s", strerror(errno));
}

static int text(FILE *out, const void *context)
{
    fputs(context, out);
    return 0;
}

static int half(FILE *out, const void *context)
{
    fputs(context, out);
    return -ENOMEM;
}

static void holds(const char *path, const char *wanted)
{
    char content[64] = "";
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s: %s", path, strerror(errno));
    content[fread(content, 1, sizeof content - 1, file)] = '\0';
    fclose(file);
    cr_expect_str_eq(content, wanted);
}

TestSuite(client_output_file, .init = enter, .fini = leave);

Test(client_output_file, a_file_is_made_and_replaced)
{
    struct stat status;
    umask(027);
    cr_assert_eq(client_output_file_check("a", &failure), 0, "%s", failure.message);
    cr_expect_eq(files(), 0);
    cr_assert_eq(client_output_file_write("a", text, "one", &failure), 0, "%s", failure.message);
    cr_assert_eq(stat("a", &status), 0);
    cr_expect_eq(status.st_mode & 07777, 0640);
    cr_assert_eq(client_output_file_check("a", &failure), 0, "%s", failure.message);
    holds("a", "one");
    cr_assert_eq(client_output_file_write("a", text, "two", &failure), 0, "%s", failure.message);
    holds("a", "two");
    cr_expect_eq(files(), 1);
}

Test(client_output_file, a_failure_leaves_the_old_one)
{
    cr_assert_eq(client_output_file_write("a", text, "one", &failure), 0, "%s", failure.message);
    cr_assert_eq(client_output_file_write("a", half, "tw", &failure), -ENOMEM);
    cr_expect(strstr(failure.message, "'a' cannot be written"), "%s", failure.message);
    holds("a", "one");
    cr_expect_eq(files(), 1);
}

Test(client_output_file, a_link_stays)
{
    struct stat status;
    cr_assert_eq(client_output_file_write("a", text, "one", &failure), 0);
    cr_assert_eq(symlink("a", "link"), 0);
    cr_assert_eq(client_output_file_write("link", text, "two", &failure), 0, "%s", failure.message);
    holds("a", "two");
    cr_assert_eq(lstat("link", &status), 0);
    cr_expect(S_ISLNK(status.st_mode));
    cr_expect_eq(files(), 2);
}

Test(client_output_file, what_is_no_file_is_written_directly)
{
    int ends[2];
    char path[64], content[8] = "";
    cr_assert_eq(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    cr_assert_eq(client_output_file_check(path, &failure), 0, "%s", failure.message);
    cr_assert_eq(client_output_file_write(path, text, "one", &failure), 0, "%s", failure.message);
    cr_assert_eq(read(ends[0], content, sizeof content - 1), 3);
    cr_expect_str_eq(content, "one");
    /* Not /dev/full: a mistake in what is tested would replace the machine's device. */
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    cr_assert_eq(client_output_file_write(path, text, "one", &failure), -EPIPE);
    cr_expect(strstr(failure.message, path) && strstr(failure.message, "cannot be written: Broken pipe"),
              "%s", failure.message);
    close(ends[1]);
}

Test(client_output_file, paths_of_no_use)
{
    static const struct {
        const char *path;
        int status;
    } cases[] = {{"", -ENOENT}, {"absent/a", -ENOENT}, {".", -EISDIR}, {"a/b", -ENOTDIR}};
    cr_assert_eq(client_output_file_write("a", text, "one", &failure), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(client_output_file_check(cases[i].path, &failure), cases[i].status, "%s", cases[i].path);
        cr_expect(strstr(failure.message, cases[i].path) && strstr(failure.message, "cannot be written"),
                  "%s", failure.message);
        cr_expect_eq(client_output_file_write(cases[i].path, text, "one", &failure), cases[i].status, "%s",
                     cases[i].path);
    }
    cr_expect_eq(files(), 1);
}
