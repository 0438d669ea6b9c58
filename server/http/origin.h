/* Pages in browsers: which of them may ask for changes.
 *
 * A browser lets any page send a POST to any server that its user can reach, convoyd on 127.0.0.1 included,
 * and names the page's server in Origin (Fetch Standard, 3.1). A request that changes what is served is taken
 * from programs, which send no Origin, and from pages of this server itself. What is "this server" cannot be
 * read off Host alone: a foreign name may be made to resolve to our address (DNS rebinding). Pure functions,
 * any thread. */
#ifndef CONVOY_SERVER_ORIGIN_H
#define CONVOY_SERVER_ORIGIN_H

#include <stdbool.h>

/* host: the header, NULL where there is none. True when, without its port, it is localhost, an address of
 * 127.0.0.0/8, [::1], or one of hosts (http.hosts of the configuration, or NULL), without regard to case. */
bool convoy_host_is_own(const char *host, char *const *hosts);

/* origin, host: the headers, NULL where there is none. True without an origin, and where origin is
 * http:// or https:// and then host, as it stands, and convoy_host_is_own(host, hosts). */
bool convoy_origin_allowed(const char *origin, const char *host, char *const *hosts);

#endif
