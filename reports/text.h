/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: parts of the text report that have a file of their own. Those of accelerators print nothing for a run
 * without one.
 */
#ifndef REPORTS_TEXT_H
#define REPORTS_TEXT_H

#include "analyzers/result.h"
#include "reports/page.h"
#include "reports/report.h"

#define REP_ROWS 12 /* of a table, where the caller did not say */

/* `most` rows; 0 = the default. */
void rep_text_ops(struct page *p, const struct an_result *r, int most);
void rep_text_devices(struct page *p, const struct an_result *r, int most);
void rep_text_hardware(struct page *p, const struct an_result *r);
void rep_text_host_to_device(struct page *p, const struct an_result *r); /* launches, precision, copies, synchronisation */
void rep_text_attribution(struct page *p, const struct an_result *r, const char *by, int most);
void rep_text_roofline(struct page *p, const struct an_result *r, int most);
void rep_text_memory(struct page *p, const struct an_result *r);        /* nothing where the program counts none */
void rep_text_compat(struct page *p, const struct an_result *r);        /* nothing unless asked for */
void rep_text_loader(struct page *p, const struct an_result *r);        /* one line; nothing without a loader */
void rep_text_loader_ranks(struct page *p, const struct an_result *r);  /* nothing for one rank */
void rep_text_communication(struct page *p, const struct an_result *r); /* one line; nothing without any */
void rep_text_communication_tables(struct page *p, const struct an_result *r, int most);
void rep_text_trust(struct page *p, const struct an_result *r);
void rep_text_definitions(struct page *p);

#endif
