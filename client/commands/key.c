#include "client/commands/key.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "client/commands/command.h"
#include "client/lib/failure.h"

static const char help[] =
    "Usage: convoy key NAME ROLE[,ROLE...]\n"
    "Makes a key of 256 random bits. Standard output gets the line for the server's file of keys "
    "(auth.keys),\n"
    "standard error the key itself, which is shown this once and stored nowhere. The line holds the key's\n"
    "SHA-256, from which the key cannot be found. The server takes the file over at SIGHUP.\n"
    "\n"
    "Roles: infer (ask models), metrics (read counters and settings), admin (load and unload, set traces\n"
    "and the log's level). A client sends the key as `Authorization: Bearer KEY`; convoy takes it from the\n"
    "environment variable CONVOY_KEY.\n"
    "\n"
    "Exit status: 0 made, 1 the output cannot be written or there is no randomness, 2 wrong command line.\n"
    "\n"
    "  convoy key camera-7 infer >>/etc/convoyd/keys\n";

static void write_hexadecimal(const uint8_t *bytes, size_t count, char *text)
{
    for (size_t i = 0; i < count; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]); // NOLINT(clang-analyzer-security.insecureAPI.*)
}

void client_key_text(const uint8_t random[CLIENT_KEY_RANDOM], char text[CLIENT_KEY_TEXT])
{
    static const char prefix[] = "convoy-"; /* so that a key that lies somewhere is known for one */
    memcpy(text, prefix, sizeof prefix);
    write_hexadecimal(random, CLIENT_KEY_RANDOM, text + sizeof prefix - 1);
}

int client_key_line(const char *name, const char *roles, const char *key, char *line, size_t capacity)
{
    struct sha256_ctx hash;
    uint8_t digest[SHA256_DIGEST_SIZE];
    char text[2 * SHA256_DIGEST_SIZE + 1];
    sha256_init(&hash);
    sha256_update(&hash, strlen(key), (const uint8_t *)key);
    sha256_digest(&hash, sizeof digest, digest);
    write_hexadecimal(digest, sizeof digest, text);
    return snprintf(line, capacity, "%s %s sha256:%s", name, roles, text);
}

static bool valid_name(const char *name)
{
    size_t length = strlen(name);
    return length >= 1 && length <= 64 &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

static bool valid_roles(const char *roles)
{
    static const char *const known[] = {"infer", "metrics", "admin"};
    for (;;) {
        size_t length = strcspn(roles, ","), i = 0;
        while (i < 3 && (strlen(known[i]) != length || strncmp(known[i], roles, length) != 0))
            i++;
        if (i == 3)
            return false;
        if (roles[length] == '\0')
            return true;
        roles += length + 1;
    }
}

static int make(const char *name, const char *roles, struct convoy_failure *failure)
{
    uint8_t random[CLIENT_KEY_RANDOM];
    char key[CLIENT_KEY_TEXT], line[256];
    if (!valid_name(name))
        return client_fail_with(failure, -EINVAL, "a name is 1 to 64 letters, digits, '.', '_' or '-'");
    if (!valid_roles(roles) || strlen(roles) > 64)
        return client_fail_with(failure, -EINVAL, "roles are infer, metrics and admin, with commas between");
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return client_fail_with(failure, -EIO, "the kernel gives no random bytes: %s", strerror(errno));
    client_key_text(random, key);
    client_key_line(name, roles, key, line, sizeof line);
    /* The line first: a key without its line is of no use. */
    if (puts(line) < 0 || fflush(stdout))
        return client_fail_with(failure, -EIO, "standard output cannot be written: %s", strerror(errno));
    fprintf(stderr, "The key of %s, shown this once:\n%s\n", name, key);
    return 0;
}

int client_key_command(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0}};
    struct client_common common;
    struct convoy_failure failure;
    int first = client_arguments(argc, argv, options, &common, NULL, NULL, &failure);
    if (first == 0) {
        fputs(help, stdout);
        return CLIENT_EXIT_OK;
    }
    int status = first < 0           ? first
                 : first + 2 != argc ? client_fail_with(&failure, -EINVAL, "name the key and its roles")
                                     : make(argv[first], argv[first + 1], &failure);
    return status ? client_report(argv[0], status, &failure) : CLIENT_EXIT_OK;
}
