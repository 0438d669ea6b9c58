/* Writes text into HTML and SVG that nothing in it can break out of. Pure functions, any thread. */
#ifndef CONVOY_CLIENT_MARKUP_H
#define CONVOY_CLIENT_MARKUP_H

#include <stddef.h>
#include <stdio.h>

/* Writes text from any source as the content of an element or between the quotes of an attribute: & < > " and
 * ' become entities. What XML cannot hold (control characters, bytes that are not UTF-8) and what turns the
 * direction of the text around it becomes U+FFFD. NULL writes nothing. */
void client_markup_text(FILE *out, const char *text);

/* As client_markup_text, but of a text longer than `characters` (at least 1) only the first ones and an
 * ellipsis.
 */
void client_markup_cut(FILE *out, const char *text, size_t characters);

/* Writes a JSON text into a script element: < > and & become \u003c, \u003e and \u0026, which say the same
 * inside of JSON's strings, the only place where JSON has them. What XML cannot hold becomes U+FFFD. */
void client_markup_json(FILE *out, const char *json);

#endif
