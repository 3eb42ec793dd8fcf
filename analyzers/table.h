/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the table of analyzers. analyze.c runs it; tests run single rows of it.
 */
#ifndef ANALYZERS_TABLE_H
#define ANALYZERS_TABLE_H

#include "analyzers/steps/context.h"

/* All of them, in the order they run: each one after those that its `after` names. */
#define AN_ANALYZER_MAP(X) \
    X(an_steps) \
    X(an_phases) \
    X(an_gpu) \
    X(an_budget) \
    X(an_noncompute) \
    X(an_attribution) \
    X(an_utilization) \
    X(an_counted) \
    X(an_roofline) \
    X(an_kernel_bound) \
    X(an_dataflow_graph) \
    X(an_ops) \
    X(an_modules_rolled) \
    X(an_launches) \
    X(an_copies) \
    X(an_syncs) \
    X(an_precision) \
    X(an_loader) \
    X(an_stage_means) \
    X(an_communication) \
    X(an_ranks_compare) \
    X(an_critical_path) \
    X(an_heat_map) \
    X(an_series) \
    X(an_system) \
    X(an_contention) \
    X(an_pressure) \
    X(an_stack_samples) \
    X(an_python_looks) \
    X(an_hardware) \
    X(an_memory) \
    X(an_leak) \
    X(an_allocating) \
    X(an_flights) \
    X(an_quality) \
    X(an_step_points) \
    X(an_slow_steps) \
    X(an_timeline) \
    X(an_curves) \
    X(an_flame) \
    X(an_trust) \
    X(an_compat) \
    X(an_sample_steps) \
    X(an_replaying) \
    X(an_findings) \
    X(an_advising) \
    X(an_verdict) \
    X(an_event_pictures)

#define AN_ANALYZER_EXTERN(name) extern const struct an_analyzer name;
AN_ANALYZER_MAP(AN_ANALYZER_EXTERN)
#undef AN_ANALYZER_EXTERN

/* Checks that every analyzer of `table` comes after all analyzers that its `after` names. Returns
 * 0, or TACHO_EINTERNAL with both names in *err: `after` names an analyzer that is not in the
 * table, that runs later, or itself. */
int an_order_check(const struct an_analyzer *const *table, size_t count, struct tacho_error *err);

#endif
