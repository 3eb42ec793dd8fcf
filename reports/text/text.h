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

void rep_text_header(struct page *page, const struct an_result *result);
void rep_text_findings(struct page *page, const struct an_result *result);
void rep_text_budget(struct page *page, const struct an_result *result);
void rep_text_cards(struct page *page, const struct an_result *result);
void rep_text_throughput(struct page *page, const struct an_result *result);
void rep_text_utilization(struct page *page, const struct an_result *result);
void rep_text_phases(struct page *page, const struct an_result *result);
void rep_text_series(struct page *page, const struct an_result *result);
void rep_text_system(struct page *page, const struct an_result *result);
void rep_text_ops(struct page *page, const struct an_result *result);
void rep_text_devices(struct page *page, const struct an_result *result);
void rep_text_hardware(struct page *page, const struct an_result *result);
void rep_text_absent(struct page *page,
                     const struct an_result *result); /* why nothing is computed */
void rep_text_host_to_device(
    struct page *page,
    const struct an_result *result); /* launches, precision, copies, synchronisation */
void rep_text_attribution(struct page *page, const struct an_result *result);
void rep_text_stacks(struct page *page,
                     const struct an_result *result); /* nothing without samples */
void rep_text_roofline(struct page *page, const struct an_result *result);
void rep_text_memory(struct page *page,
                     const struct an_result *result); /* nothing where the program counts none */
void rep_text_compat(struct page *page,
                     const struct an_result *result); /* nothing unless asked for */
void rep_text_loader(struct page *page,
                     const struct an_result *result); /* one line; nothing without a loader */
void rep_text_ranks(struct page *page, const struct an_result *result); /* the same */
void rep_text_loader_ranks(struct page *page,
                           const struct an_result *result); /* nothing for one rank */
void rep_text_communication(struct page *page,
                            const struct an_result *result); /* one line; nothing without any */
void rep_text_advice(struct page *page, const struct an_result *result);
void rep_text_critical_path(struct page *page,
                            const struct an_result *result); /* nothing without one */
void rep_text_path_step(struct page *page,
                        const struct an_result *result); /* its way through a typical step */
void rep_text_communication_tables(struct page *page, const struct an_result *result);
void rep_text_steps(struct page *page, const struct an_result *result);
void rep_text_timeline(struct page *page, const struct an_result *result);
void rep_text_flame(struct page *page, const struct an_result *result);
void rep_text_heat(struct page *page, const struct an_result *result);
void rep_text_trust(struct page *page, const struct an_result *result);
void rep_text_definitions(struct page *page);

#endif
