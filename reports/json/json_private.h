/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/json/: the sections of tacho-report/1 that have a file of their own. A section
 * that the run cannot fill is null with the reason.
 */
#ifndef REPORTS_JSON_PRIVATE_H
#define REPORTS_JSON_PRIVATE_H

#include "reports/json/json_writer.h"

void rep_json_loader(struct rep_writer *writer, const struct an_loader *loader);
void rep_json_critical_path(struct rep_writer *writer, const struct an_critical_path *path);
void rep_json_advice(struct rep_writer *writer, const struct an_result *result);
void rep_json_stages(struct rep_writer *writer, const struct an_stages *stages);
void rep_json_ranks(struct rep_writer *writer, const struct an_ranks *ranks);
void rep_json_communication(struct rep_writer *writer,
                            const struct an_communication *communication);

/* Sections that need an accelerator. */
void rep_json_devices(struct rep_writer *writer, const struct an_result *result);
void rep_json_energy(struct rep_writer *writer, const struct an_energy *energy);
void rep_json_counted(struct rep_writer *writer, const struct an_result *result);
void rep_json_hardware(struct rep_writer *writer, const struct an_result *result);
void rep_json_roofline(struct rep_writer *writer, const struct an_result *result);
void rep_json_bounds(struct rep_writer *writer, const struct an_kernel_bounds *bounds);
void rep_json_noncompute(struct rep_writer *writer, const struct an_result *result);
/* Launches, copies, synchronisation, precision. */
void rep_json_host_to_device(struct rep_writer *writer, const struct an_result *result);
void rep_json_attribution(struct rep_writer *writer, const struct an_attribution *attribution);
void rep_json_python(struct rep_writer *writer, const struct an_python *python);
void rep_json_modules(struct rep_writer *writer, const struct an_modules *modules);
void rep_json_compat(struct rep_writer *writer, const struct an_compat_table *table);
void rep_json_capture(struct rep_writer *writer, const struct an_quality *quality);
/* json_allocator.c: memory snapshots, flight recorders. */
void rep_json_allocator(struct rep_writer *writer, const struct an_allocator *allocator);
void rep_json_flight(struct rep_writer *writer, const struct an_flight *flight);

/* json_dataflow.c */
void rep_json_dataflow(struct rep_writer *writer, const struct an_dataflow *flow);

#endif
