/* Regions of shared memory: what is registered, what is refused, and objects that change under them. */
#include "server/inference/shared_memory.h"
#include "server/http/loopback.h"
#include "tests/unit/folder.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define OBJECT_BYTES 10000

static struct convoy_shared_memory *memory;
static struct convoy_error error;
static char key[64]; /* an object of OBJECT_BYTES bytes, each of which is its offset's last byte */
static int object;

/* A key that no other test has: Criterion runs each in a process of its own. */
static const char *key_of(const char *name)
{
    static char keys[4][64];
    static unsigned turn;
    char *text = keys[turn++ % 4];

    snprintf(text, sizeof keys[0], "/convoy-test-%d-%s", (int)getpid(), name);
    return text;
}

static int make_object(const char *name, size_t bytes)
{
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    cr_assert_geq(fd, 0, "%s: %s", name, strerror(errno));
    cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

static void set_up(void)
{
    uint8_t bytes[OBJECT_BYTES];

    static const struct convoy_shared_memory_config config = {.enabled = true};
    struct convoy_error error;
    cr_assert_eq(convoy_shared_memory_new(&config, &memory, &error), 0, "%s", error.message);
    strcpy(key, key_of("object"));
    object = make_object(key, OBJECT_BYTES);
    for (size_t i = 0; i < OBJECT_BYTES; i++)
        bytes[i] = (uint8_t)i;
    cr_assert_eq(pwrite(object, bytes, sizeof bytes, 0), OBJECT_BYTES);
}

/* Also after a failed assertion. */
static void clean_up(void)
{
    shm_unlink(key); /* first, in case the rest fails too */
    close(object);
    convoy_shared_memory_free(memory);
}

TestSuite(shared_memory, .init = set_up, .fini = clean_up);

static int add(const char *name, const char *of, uint64_t offset, uint64_t byte_size)
{
    error.message[0] = '\0';
    return convoy_shared_memory_register(memory, name, of, offset, byte_size, &error);
}

static void assert_status(const char *name, const char *expected)
{
    struct convoy_json_writer json = {0};

    cr_assert_eq(convoy_shared_memory_write_status(memory, name, &json, &error), 0);
    convoy_json_writer_append(&json, "", 1);
    cr_assert_not(json.failed);
    cr_assert_str_eq(json.bytes, expected);
    convoy_json_writer_free(&json);
}

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    cr_assert_not_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

Test(shared_memory, status_lists_by_name_what_is_registered)
{
    char expected[512], one[256];
    struct convoy_json_writer json = {0};

    assert_status(NULL, "[]");
    cr_assert_eq(add("b", key, 0, OBJECT_BYTES), 0);
    cr_assert_eq(add("a \"\xC3\xA4", key + 1, 100, 50), 0, "a key without its slash, the same object twice");
    cr_assert_eq(add("c", key, OBJECT_BYTES - 1, 1), 0);
    snprintf(one, sizeof one, "{\"name\":\"a \\\"\xC3\xA4\",\"key\":\"%s\",\"offset\":100,\"byte_size\":50}",
             key + 1);
    snprintf(expected, sizeof expected,
             "[%s,{\"name\":\"b\",\"key\":\"%s\",\"offset\":0,\"byte_size\":10000},"
             "{\"name\":\"c\",\"key\":\"%s\",\"offset\":9999,\"byte_size\":1}]",
             one, key, key);
    assert_status(NULL, expected);
    snprintf(expected, sizeof expected, "[%s]", one);
    assert_status("a \"\xC3\xA4", expected);
    cr_assert_eq(convoy_shared_memory_write_status(memory, "d", &json, &error), -ENOENT);
    assert_says(error, "'d'");
    cr_assert_eq(json.length, 0);

    convoy_shared_memory_unregister(memory, "b");
    convoy_shared_memory_unregister(memory, "b");
    convoy_shared_memory_unregister(memory, "nobody");
    snprintf(expected, sizeof expected,
             "[%s,{\"name\":\"c\",\"key\":\"%s\",\"offset\":9999,\"byte_size\":1}]", one, key);
    assert_status(NULL, expected);
    convoy_shared_memory_unregister_all(memory);
    assert_status(NULL, "[]");
    convoy_shared_memory_unregister_all(memory);
}

Test(shared_memory, names_are_utf8_of_1_to_255_bytes)
{
    char name[300];

    cr_assert_eq(add("", key, 0, 1), -EINVAL);
    assert_says(error, "name");
    cr_assert_eq(add("a\xFF", key, 0, 1), -EINVAL);
    memset(name, 'n', sizeof name);
    name[255] = '\0';
    cr_assert_eq(add(name, key, 0, 1), 0);
    name[255] = 'n';
    name[256] = '\0';
    cr_assert_eq(add(name, key, 0, 1), -EINVAL);
    cr_assert_eq(add("same", key, 0, 1), 0);
    cr_assert_eq(add("same", key, 0, 1), -EEXIST);
    assert_says(error, "'same'");
    convoy_shared_memory_unregister(memory, "same");
    cr_assert_eq(add("same", key, 0, 2), 0);
}

Test(shared_memory, keys_are_one_segment)
{
    static const char *const wrong[] = {"", "/", "//a", "/a/b", "a/b", "/../shm/x", "/dev/shm/x", "/a/"};
    char long_key[300];

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert_eq(add("a", wrong[i], 0, 1), -EINVAL, "%s", wrong[i]);
        assert_says(error, "key");
    }
    cr_assert_eq(add("a", "/a\xFF", 0, 1), -EINVAL);
    /* Folders, if anything. */
    cr_assert_lt(add("a", ".", 0, 1), 0);
    cr_assert_lt(add("a", "/..", 0, 1), 0);
    memset(long_key, 'k', sizeof long_key);
    long_key[254] = '\0'; /* with its slash 255 */
    cr_assert_eq(add("a", long_key, 0, 1), -ENOENT);
    long_key[254] = 'k';
    long_key[255] = '\0';
    cr_assert_eq(add("a", long_key, 0, 1), -EINVAL);
    long_key[0] = '/';
    cr_assert_eq(add("a", long_key, 0, 1), -ENOENT);
    long_key[255] = 'k';
    long_key[299] = '\0';
    cr_assert_eq(add("a", long_key, 0, 1), -EINVAL);
    assert_status(NULL, "[]");
}

Test(shared_memory, what_is_no_object_is_refused)
{
    char path[128];
    int before = open_descriptors();

    cr_assert_eq(add("a", key_of("missing"), 0, 1), -ENOENT);
    assert_says(error, "no shared memory object");

    /* What else may lie where the objects do. */
    const char *fifo = key_of("fifo");
    snprintf(path, sizeof path, "/dev/shm%s", fifo);
    cr_assert_eq(mkfifo(path, 0600), 0);
    int code = add("a", fifo, 0, 1);
    unlink(path);
    cr_assert_eq(code, -ENXIO);
    assert_says(error, "no shared memory object");

    const char *folder = key_of("folder");
    snprintf(path, sizeof path, "/dev/shm%s", folder);
    cr_assert_eq(mkdir(path, 0700), 0);
    code = add("a", folder, 0, 1);
    rmdir(path);
    cr_assert_eq(code, -EINVAL);
    assert_says(error, "no shared memory object");

    const char *elsewhere = key_of("link");
    snprintf(path, sizeof path, "/dev/shm%s", elsewhere);
    cr_assert_eq(symlink("/proc/self/exe", path), 0);
    code = add("a", elsewhere, 0, 1);
    unlink(path);
    cr_assert_eq(code, -ELOOP);
    cr_assert_eq(open_descriptors(), before);
}

Test(shared_memory, objects_of_other_users_and_prefixes_are_refused)
{
    char other[16], own[16];
    snprintf(other, sizeof other, "%u", geteuid() + 1);
    snprintf(own, sizeof own, "%u", geteuid());
    char *others[] = {other, NULL}, *both[] = {other, own, NULL};
    const struct {
        struct convoy_shared_memory_config config;
        int code;
        const char *says;
    } cases[] = {{{.enabled = true, .owners = others}, -EACCES, "shared_memory.owners"},
                 {{.enabled = true, .owners = both}, 0, NULL},
                 {{.enabled = true, .prefix = "/convoy-test-"}, 0, NULL},
                 {{.enabled = true, .prefix = "/elsewhere"}, -EACCES, "'/elsewhere'"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct convoy_shared_memory *table;
        cr_assert_eq(convoy_shared_memory_new(&cases[i].config, &table, &error), 0);
        cr_assert_eq(convoy_shared_memory_register(table, "a", key, 0, 1, &error), cases[i].code, "%zu: %s",
                     i, error.message);
        if (cases[i].says != NULL)
            assert_says(error, cases[i].says);
        convoy_shared_memory_free(table);
    }
}

Test(shared_memory, an_object_that_may_not_be_written_is_refused)
{
    if (geteuid() == 0)
        cr_assert_eq(seteuid(65534), 0);
    else
        cr_assert_eq(fchmod(object, 0400), 0);
    int code = add("a", key, 0, 1);
    if (getuid() == 0)
        cr_assert_eq(seteuid(0), 0);
    cr_assert_eq(code, -EACCES);
    assert_says(error, "0666");
}

Test(shared_memory, a_region_lies_inside_its_object)
{
    int before = open_descriptors();

    cr_assert_eq(add("a", key, 0, 0), -EINVAL);
    assert_says(error, "byte_size");
    cr_assert_eq(add("a", key, 0, OBJECT_BYTES + 1), -ERANGE);
    assert_says(error, "more than the shared memory object has: register less");
    cr_assert_null(strstr(error.message, " 10000"), "it tells how long the object is");
    cr_assert_eq(add("a", key, OBJECT_BYTES, 1), -ERANGE);
    cr_assert_eq(add("a", key, OBJECT_BYTES + 1, 1), -ERANGE);
    cr_assert_eq(add("a", key, 1, OBJECT_BYTES), -ERANGE);
    /* Sums that wrap around. */
    cr_assert_eq(add("a", key, UINT64_MAX, 2), -ERANGE);
    cr_assert_eq(add("a", key, 2, UINT64_MAX), -ERANGE);
    cr_assert_eq(add("a", key, UINT64_MAX - 99, 200), -ERANGE);
    cr_assert_eq(open_descriptors(), before, "a refusal keeps no descriptor");
    cr_assert_eq(add("a", key, 1, OBJECT_BYTES - 1), 0);
    cr_assert_eq(open_descriptors(), before + 1);
    cr_assert_eq(add("a", key, 0, 1), -EEXIST);
    cr_assert_eq(open_descriptors(), before + 1);
    convoy_shared_memory_unregister(memory, "a");
    cr_assert_eq(open_descriptors(), before);
}

Test(shared_memory, reads_and_writes_what_the_client_sees)
{
    uint8_t bytes[OBJECT_BYTES], seen[OBJECT_BYTES];

    cr_assert_eq(add("a", key, 1000, 5000), 0);
    cr_assert_eq(convoy_shared_memory_read(memory, "a", 0, 5000, bytes, &error), 0);
    for (size_t i = 0; i < 5000; i++)
        cr_assert_eq(bytes[i], (uint8_t)(1000 + i));
    cr_assert_eq(convoy_shared_memory_read(memory, "a", 4999, 1, bytes, &error), 0);
    cr_assert_eq(bytes[0], (uint8_t)5999);
    cr_assert_eq(convoy_shared_memory_read(memory, "a", 5000, 0, NULL, &error), 0);

    memset(bytes, 0xEE, sizeof bytes);
    cr_assert_eq(convoy_shared_memory_write(memory, "a", 1000, 4000, bytes, &error), 0);
    cr_assert_eq(pread(object, seen, sizeof seen, 0), OBJECT_BYTES);
    for (size_t i = 0; i < OBJECT_BYTES; i++)
        cr_assert_eq(seen[i], i >= 2000 && i < 6000 ? 0xEE : (uint8_t)i, "%zu", i);
}

Test(shared_memory, nothing_beyond_the_region_is_touched)
{
    static const struct {
        uint64_t offset;
        size_t bytes;
    } beyond[] = {{0, 5001},           {5000, 1},        {5001, 0},         {4999, 2},
                  {1, 5000},           {UINT64_MAX, 1},  {UINT64_MAX, 0},   {1, SIZE_MAX},
                  {UINT64_MAX - 1, 4}, {5000, SIZE_MAX}, {SIZE_MAX / 2, 9}, {0, SIZE_MAX}};
    uint8_t bytes[OBJECT_BYTES];
    uint8_t seen[OBJECT_BYTES];

    memset(bytes, 0xEE, sizeof bytes);
    cr_assert_eq(add("a", key, 1000, 5000), 0);
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        cr_assert_eq(convoy_shared_memory_read(memory, "a", beyond[i].offset, beyond[i].bytes, bytes, &error),
                     -ERANGE, "read %zu", i);
        assert_says(error, "more than were registered");
        cr_assert_eq(
            convoy_shared_memory_write(memory, "a", beyond[i].offset, beyond[i].bytes, bytes, &error),
            -ERANGE, "write %zu", i);
    }
    for (size_t i = 0; i < OBJECT_BYTES; i++)
        cr_assert_eq(bytes[i], 0xEE);
    cr_assert_eq(pread(object, seen, sizeof seen, 0), OBJECT_BYTES);
    for (size_t i = 0; i < OBJECT_BYTES; i++)
        cr_assert_eq(seen[i], (uint8_t)i);
    cr_assert_eq(convoy_shared_memory_read(memory, "b", 0, 1, bytes, &error), -ENOENT);
    assert_says(error, "'b'");
    cr_assert_eq(convoy_shared_memory_write(memory, "b", 0, 1, bytes, &error), -ENOENT);
    convoy_shared_memory_unregister(memory, "a");
    cr_assert_eq(convoy_shared_memory_read(memory, "a", 0, 1, bytes, &error), -ENOENT);
}

/* A mapping of it would end this process with SIGBUS. */
Test(shared_memory, an_object_that_was_truncated_is_an_error_and_stays_short)
{
    uint8_t bytes[5000];
    struct stat status;

    memset(bytes, 0xEE, sizeof bytes);
    cr_assert_eq(add("a", key, 1000, 5000), 0);
    cr_assert_eq(ftruncate(object, 5999), 0);
    cr_assert_eq(convoy_shared_memory_read(memory, "a", 0, 5000, bytes, &error), -ENODATA);
    assert_says(error, "'a' has become shorter");
    cr_assert_eq(convoy_shared_memory_read(memory, "a", 0, 4999, bytes, &error), 0, "what is left is read");
    cr_assert_eq(convoy_shared_memory_write(memory, "a", 0, 5000, bytes, &error), -ENODATA);
    assert_says(error, "'a' has become shorter");
    cr_assert_eq(convoy_shared_memory_write(memory, "a", 4999, 1, bytes, &error), -ENODATA);
    cr_assert_eq(convoy_shared_memory_write(memory, "a", 0, 4999, bytes, &error), 0);
    cr_assert_eq(fstat(object, &status), 0);
    cr_assert_eq(status.st_size, 5999);

    cr_assert_eq(ftruncate(object, 0), 0);
    cr_assert_eq(convoy_shared_memory_read(memory, "a", 0, 1, bytes, &error), -ENODATA);
    cr_assert_eq(convoy_shared_memory_write(memory, "a", 0, 1, bytes, &error), -ENODATA);
    cr_assert_eq(fstat(object, &status), 0);
    cr_assert_eq(status.st_size, 0);

    /* As long again it serves again. */
    cr_assert_eq(ftruncate(object, OBJECT_BYTES), 0);
    cr_assert_eq(convoy_shared_memory_read(memory, "a", 0, 5000, bytes, &error), 0);
    cr_assert_eq(bytes[4999], 0);
}

/* The client may unlink at once what it registered, and make something else of that name. */
Test(shared_memory, a_region_keeps_the_object_that_it_was_registered_with)
{
    uint8_t byte = 0;

    cr_assert_eq(add("a", key, 77, 1), 0);
    cr_assert_eq(shm_unlink(key), 0);
    int other = make_object(key, OBJECT_BYTES);
    cr_assert_eq(convoy_shared_memory_read(memory, "a", 0, 1, &byte, &error), 0);
    cr_assert_eq(byte, 77);
    cr_assert_eq(add("b", key, 77, 1), 0);
    cr_assert_eq(convoy_shared_memory_read(memory, "b", 0, 1, &byte, &error), 0);
    cr_assert_eq(byte, 0);
    close(other);
}

/* The part that starts the workers must not hand them the clients' memory. */
Test(shared_memory, descriptors_are_closed_on_exec)
{
    int next = fcntl(object, F_DUPFD_CLOEXEC, 0); /* the number that comes next */

    close(next);
    cr_assert_eq(add("a", key, 0, 1), 0);
    cr_assert_eq(fcntl(next, F_GETFD), FD_CLOEXEC);
}

Test(shared_memory, regions_are_limited_in_number)
{
    char name[32];

    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < CONVOY_SHARED_MEMORY_REGIONS + 64)
        cr_skip_test("this process may not open as many descriptors");
    int before = open_descriptors();
    /* In an order that is neither rising nor falling: 7 and 1024 have no common divisor. */
    for (unsigned i = 0; i < CONVOY_SHARED_MEMORY_REGIONS; i++) {
        snprintf(name, sizeof name, "r%u", i * 7 % CONVOY_SHARED_MEMORY_REGIONS);
        cr_assert_eq(add(name, key, i * 7 % CONVOY_SHARED_MEMORY_REGIONS, 1), 0);
    }
    cr_assert_eq(add("one more", key, 0, 1), -ENOSPC);
    assert_says(error, "1024");
    for (unsigned i = 0; i < CONVOY_SHARED_MEMORY_REGIONS; i++) {
        uint8_t byte;
        snprintf(name, sizeof name, "r%u", i);
        cr_assert_eq(convoy_shared_memory_read(memory, name, 0, 1, &byte, &error), 0);
        cr_assert_eq(byte, (uint8_t)i, "%s", name);
    }
    convoy_shared_memory_unregister(memory, "r500");
    cr_assert_eq(add("one more", key, 0, 1), 0);
    cr_assert_eq(open_descriptors(), before + CONVOY_SHARED_MEMORY_REGIONS);
    convoy_shared_memory_unregister_all(memory);
    cr_assert_eq(open_descriptors(), before);
}

Test(shared_memory, want_of_descriptors_is_not_the_clients_fault)
{
    struct rlimit limit, none;

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t)object + 1;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    int code = add("a", key, 0, 1);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_eq(code, -EMFILE);
    assert_says(error, "try again later");
}

static bool local(int family, const char *text)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    void *into = family == AF_INET ? (void *)&four.sin_addr : (void *)&six.sin6_addr;

    cr_assert_eq(inet_pton(family, text, into), 1, "%s", text);
    return convoy_loopback(family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six);
}

Test(loopback, is_127_and_its_forms_in_ipv6)
{
    static const char *const near4[] = {"127.0.0.1", "127.0.0.0", "127.255.255.255", "127.1.2.3"};
    static const char *const far4[] = {"126.255.255.255", "128.0.0.1", "0.0.0.0",        "10.0.0.127",
                                       "192.0.2.2",       "1.0.0.127", "255.255.255.255"};
    static const char *const near6[] = {"::1", "::ffff:127.0.0.1", "::ffff:127.255.0.9"};
    static const char *const far6[] = {"::",
                                       "::2",
                                       "1::1",
                                       "::127.0.0.1",
                                       "::ffff:128.0.0.1",
                                       "::ffff:10.0.0.127",
                                       "fe80::1",
                                       "7f00::1",
                                       "64:ff9b::127.0.0.1",
                                       "::fffe:127.0.0.1",
                                       "1::ffff:127.0.0.1"};
    struct sockaddr unix_socket = {.sa_family = AF_UNIX};

    for (size_t i = 0; i < sizeof near4 / sizeof near4[0]; i++)
        cr_assert(local(AF_INET, near4[i]), "%s", near4[i]);
    for (size_t i = 0; i < sizeof far4 / sizeof far4[0]; i++)
        cr_assert_not(local(AF_INET, far4[i]), "%s", far4[i]);
    for (size_t i = 0; i < sizeof near6 / sizeof near6[0]; i++)
        cr_assert(local(AF_INET6, near6[i]), "%s", near6[i]);
    for (size_t i = 0; i < sizeof far6 / sizeof far6[0]; i++)
        cr_assert_not(local(AF_INET6, far6[i]), "%s", far6[i]);
    cr_assert_not(convoy_loopback(NULL));
    cr_assert_not(convoy_loopback(&unix_socket));
}
