/* `convoy key`: makes a key for a server's file of keys. */
#ifndef CONVOY_CLIENT_KEY_H
#define CONVOY_CLIENT_KEY_H

#include <stddef.h>
#include <stdint.h>

#define CLIENT_KEY_RANDOM 32 /* bytes: 256 bits */
#define CLIENT_KEY_TEXT   (7 + 2 * CLIENT_KEY_RANDOM + 1)

/* Writes the key of these random bytes, "convoy-" and 64 hexadecimal digits. */
void client_key_text(const uint8_t random[CLIENT_KEY_RANDOM], char text[CLIENT_KEY_TEXT]);

/* Writes the line of the file of keys: NAME ROLES sha256:HEX. Returns its length, as snprintf(). */
int client_key_line(const char *name, const char *roles, const char *key, char *line, size_t capacity);

/* Runs the command; returns its exit status. */
int client_key_command(int argc, char **argv);

#endif
