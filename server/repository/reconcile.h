/* Updates the registry's records from a scan of the repository, and selects the records that are to be
 * served. Both functions run on the control loop. */
#ifndef CONVOY_SERVER_RECONCILE_H
#define CONVOY_SERVER_RECONCILE_H

#include "server/repository/repository_scan.h"

/* Adds a record for each version that is new or whose files changed, and sets plan.present of every record. A
 * change is taken over only when the previous scan saw the same files, so that files that are still being
 * written are left alone; previous NULL: at once. only: restricts this to one name; NULL: all names. Takes
 * configurations out of scan. Returns how many records were added; a record that cannot be added is logged.
 */
uint32_t convoy_reconcile(struct convoy_registry *registry, struct convoy_repository_scan *scan,
                          const struct convoy_repository *previous, const char *only);

/* Applies the version policies: sets plan.newest, .wanted and .covered of every record. asked: whether a name
 * is to be served at all. */
void convoy_select_versions(struct convoy_registry *registry, bool (*asked)(void *context, const char *name),
                            void *context);

#endif
