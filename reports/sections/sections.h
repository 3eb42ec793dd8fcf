/* SPDX-License-Identifier: Apache-2.0
 *
 * The sections of a report in their order, the same for every format that people
 * read; the dashboard shows some of them. A section is written once, with the calls of page.h and
 * table.h; the page knows the format. To add one: a function below and a row in sections.c.
 */
#ifndef REPORTS_SECTIONS_H
#define REPORTS_SECTIONS_H

#include <stdbool.h>

#include "analyzers/result/result.h"
#include "reports/page/page.h"

/* What ran, the verdict, all sections; the definitions of every number where they are asked for. */
void rep_sections_write(struct page *page, const struct an_result *result, bool definitions);
/* One section and what continues it. TACHO_EUSAGE: none has this id. */
int rep_sections_write_one(struct page *page, const struct an_result *result, const char *id);

/* The first id of a list ("budget,trust") that no section has, and its length; NULL: none. */
const char *rep_sections_unknown(const char *list, size_t *length);
/* The id of a section by its place in the order; NULL behind the last. */
const char *rep_sections_id(size_t index);

/* ---- the sections, each in a file of this folder --------------------------------------------- */

/* A section is written with the calls of page.h and table.h only. It prints nothing where a run of
 * its kind has nothing to say; for what is absent it gives the reason. */
typedef void rep_section(struct page *page, const struct an_result *result);

#define REP_DETAIL_MOST 8
/* The first screen. The level REP_DETAIL_MOST has the texts whole; each smaller one shortens them
 * further, down to 0. */
void rep_section_summary(struct page *page, const struct an_result *result, int level);

rep_section rep_section_header, rep_section_findings, rep_section_cards, rep_section_trust;
rep_section rep_section_header_brief; /* on a terminal the path of the run's file in one line */
void rep_section_card(struct page *page, const struct an_result *result, size_t number);
rep_section rep_section_budget, rep_section_noncompute, rep_section_critical_path;
rep_section rep_section_advice, rep_section_steps, rep_section_timeline, rep_section_flame;
rep_section rep_section_heat, rep_section_over_time;
rep_section rep_section_path_step; /* the way of the critical path through a typical step */

/* One or two lines each. */
rep_section rep_section_throughput, rep_section_utilization, rep_section_phases;
rep_section rep_section_loader, rep_section_communication, rep_section_series;
/* Has the section of the loader anything to say? */
bool rep_loader_says(const struct an_result *result);
rep_section rep_section_system, rep_section_hardware, rep_section_memory;
rep_section rep_section_dataflow;
rep_section rep_section_allocator, rep_section_flight; /* memory snapshots, flight recorders */

/* Tables; those of ranks say nothing about a run of one rank. */
rep_section rep_section_ops, rep_section_modules, rep_section_stacks, rep_section_python;
rep_section rep_section_roofline, rep_section_attribution;
rep_section rep_section_devices;
rep_section rep_section_host_to_device; /* launches, precision, copies, synchronisation */
rep_section rep_section_loader_ranks, rep_section_communication_tables, rep_section_ranks;
rep_section rep_section_traffic; /* who sends to whom */
rep_section rep_section_compat;  /* the figures of another tool, where they were asked for */

void rep_section_definitions(struct page *page);

#endif
