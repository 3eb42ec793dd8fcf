/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: the sections of a report in their order, the same for every format that
 * people read. A section is written once, with the calls of page.h and table.h; the page knows the
 * format. To add one: a function below and a row in sections.c.
 */
#ifndef REPORTS_SECTIONS_H
#define REPORTS_SECTIONS_H

#include <stdbool.h>

#include "analyzers/result/result.h"
#include "reports/page/page.h"

enum rep_how {
    REP_SHOWN,
    REP_FOLDED, /* long: formats that fold do */
    REP_DRAWN   /* a picture with its table: not on lines, unless asked for */
};

struct rep_section {
    const char *id;    /* of the heading, unique; NULL: goes on in the section above */
    const char *title; /* the heading, in formats that have some */
    void (*write)(struct page *p,
                  const struct an_result *r); /* nothing where there is nothing to say */
    enum rep_how how;
};

extern const struct rep_section rep_sections[]; /* ends with write NULL */

/* What ran, the verdict, all sections; the definitions of every number where they are asked for. */
void rep_sections_write(struct page *page, const struct an_result *result, bool definitions);
/* One section and what goes on in it. TACHO_EUSAGE: none has this id. */
int rep_sections_write_one(struct page *page, const struct an_result *result, const char *id);

/* ---- the sections, each in a file of this folder ---------------------------------------------- */

/* A section is written with the calls of page.h and table.h only. It prints nothing where a run of
 * its kind has nothing to say; for what is absent it gives the reason. */
void rep_section_header(struct page *page, const struct an_result *result);
void rep_section_findings(struct page *page, const struct an_result *result);
void rep_section_budget(struct page *page, const struct an_result *result);
void rep_section_cards(struct page *page, const struct an_result *result);
void rep_section_throughput(struct page *page, const struct an_result *result);
void rep_section_utilization(struct page *page, const struct an_result *result);
void rep_section_phases(struct page *page, const struct an_result *result);
void rep_section_series(struct page *page, const struct an_result *result);
void rep_section_system(struct page *page, const struct an_result *result);
void rep_section_ops(struct page *page, const struct an_result *result);
void rep_section_devices(struct page *page, const struct an_result *result);
void rep_section_hardware(struct page *page, const struct an_result *result);
void rep_section_noncompute(struct page *page,
                            const struct an_result *result); /* why nothing is computed */
void rep_section_host_to_device(
    struct page *page,
    const struct an_result *result); /* launches, precision, copies, synchronisation */
void rep_section_attribution(struct page *page, const struct an_result *result);
void rep_section_stacks(struct page *page,
                        const struct an_result *result); /* nothing without samples */
void rep_section_roofline(struct page *page, const struct an_result *result);
void rep_section_memory(struct page *page,
                        const struct an_result *result); /* nothing where the program counts none */
void rep_section_compat(struct page *page,
                        const struct an_result *result); /* nothing unless asked for */
void rep_section_loader(struct page *page,
                        const struct an_result *result); /* one line; nothing without a loader */
void rep_section_ranks(struct page *page, const struct an_result *result); /* the same */
void rep_section_loader_ranks(struct page *page,
                              const struct an_result *result); /* nothing for one rank */
void rep_section_communication(struct page *page,
                               const struct an_result *result); /* one line; nothing without any */
void rep_section_advice(struct page *page, const struct an_result *result);
void rep_section_critical_path(struct page *page,
                               const struct an_result *result); /* nothing without one */
void rep_section_path_step(struct page *page,
                           const struct an_result *result); /* its way through a typical step */
void rep_section_communication_tables(struct page *page, const struct an_result *result);
void rep_section_steps(struct page *page, const struct an_result *result);
void rep_section_timeline(struct page *page, const struct an_result *result);
void rep_section_flame(struct page *page, const struct an_result *result);
void rep_section_heat(struct page *page, const struct an_result *result);
void rep_section_trust(struct page *page, const struct an_result *result);
void rep_section_definitions(struct page *page);

#endif
