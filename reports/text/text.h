/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: the sections of a report, written with the calls of page.h and table.h and
 * of nothing else. Each prints nothing where a run of its kind has nothing to say; what is absent
 * is said with its reason.
 */
#ifndef REPORTS_TEXT_H
#define REPORTS_TEXT_H

#include "analyzers/result/result.h"
#include "reports/page/page.h"

void rep_text_header(struct page *p, const struct an_result *r);
void rep_text_findings(struct page *p, const struct an_result *r);
void rep_text_budget(struct page *p, const struct an_result *r);
void rep_text_cards(struct page *p, const struct an_result *r);
void rep_text_throughput(struct page *p, const struct an_result *r);
void rep_text_utilization(struct page *p, const struct an_result *r);
void rep_text_phases(struct page *p, const struct an_result *r);
void rep_text_series(struct page *p, const struct an_result *r);
void rep_text_system(struct page *p, const struct an_result *r);
void rep_text_ops(struct page *p, const struct an_result *r);
void rep_text_devices(struct page *p, const struct an_result *r);
void rep_text_hardware(struct page *p, const struct an_result *r);
void rep_text_absent(struct page *p, const struct an_result *r); /* why nothing is computed */
void rep_text_host_to_device(
    struct page *p, const struct an_result *r); /* launches, precision, copies, synchronisation */
void rep_text_attribution(struct page *p, const struct an_result *r);
void rep_text_stacks(struct page *p, const struct an_result *r); /* nothing without samples */
void rep_text_roofline(struct page *p, const struct an_result *r);
void rep_text_memory(struct page *p,
                     const struct an_result *r); /* nothing where the program counts none */
void rep_text_compat(struct page *p, const struct an_result *r); /* nothing unless asked for */
void rep_text_loader(struct page *p,
                     const struct an_result *r); /* one line; nothing without a loader */
void rep_text_ranks(struct page *p, const struct an_result *r);        /* the same */
void rep_text_loader_ranks(struct page *p, const struct an_result *r); /* nothing for one rank */
void rep_text_communication(struct page *p,
                            const struct an_result *r); /* one line; nothing without any */
void rep_text_advice(struct page *p, const struct an_result *r);
void rep_text_critical_path(struct page *p, const struct an_result *r); /* nothing without one */
void rep_text_path_step(struct page *p,
                        const struct an_result *r); /* its way through a typical step */
void rep_text_communication_tables(struct page *p, const struct an_result *r);
void rep_text_steps(struct page *p, const struct an_result *r);
void rep_text_timeline(struct page *p, const struct an_result *r);
void rep_text_flame(struct page *p, const struct an_result *r);
void rep_text_heat(struct page *p, const struct an_result *r);
void rep_text_trust(struct page *p, const struct an_result *r);
void rep_text_definitions(struct page *p);

#endif
