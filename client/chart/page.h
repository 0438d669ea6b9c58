/* A report: one HTML file that stands alone. It has its style within, no script and nothing from elsewhere,
 * which a content security policy makes sure of; it is well-formed XML, too. The numbers that it shows lie in
 * it as JSON. */
#ifndef CONVOY_CLIENT_PAGE_H
#define CONVOY_CLIENT_PAGE_H

#include <stdio.h>

/* Writes the head, with style and title, and the heading. */
void client_page_open(FILE *out, const char *title);

/* Writes <tag>text</tag> with the text's characters escaped; tag may carry attributes ("td
 * class=\"number\""). */
void client_page_element(FILE *out, const char *tag, const char *text);

/* The same with a text that is formatted; it is cut after 1,023 bytes. */
__attribute__((format(printf, 3, 4))) void client_page_format(FILE *out, const char *tag, const char *format,
                                                              ...);

/* Writes the JSON text as a script element that is data, not code. id: letters, digits and '-'. */
void client_page_data(FILE *out, const char *id, const char *json);

void client_page_close(FILE *out);

/* Writes the data and the end of the page. Returns -ENOMEM where json is NULL, because memory was out, else
 * 0. */
int client_page_end(FILE *out, const char *id, const char *json);

/* Finds the JSON that client_page_data wrote under that id into a page, which is not trusted and need not be
 * terminated by NUL. Returns its first byte and its size, or NULL. */
const char *client_page_find_data(const char *page, size_t size, const char *id, size_t *found);

#endif
