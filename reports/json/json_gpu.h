/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: the sections of tacho-report/1 that accelerators fill. On a run without one
 * each is null with the reason.
 */
#ifndef REPORTS_JSON_GPU_H
#define REPORTS_JSON_GPU_H

#include "reports/json/json_writer.h"

void rep_json_devices(struct rep_writer *writer, const struct an_result *result);
void rep_json_energy(struct rep_writer *writer, const struct an_energy *energy);
void rep_json_counted(struct rep_writer *writer, const struct an_result *result);
void rep_json_hardware(struct rep_writer *writer, const struct an_result *result);
void rep_json_roofline(struct rep_writer *writer, const struct an_result *result);
void rep_json_compute_absent(struct rep_writer *writer, const struct an_result *result);
void rep_json_host_to_device(
    struct rep_writer *writer,
    const struct an_result *result); /* launches, copies, syncs, precision */
void rep_json_attribution(struct rep_writer *writer, const struct an_attribution *attribution);
void rep_json_compat(struct rep_writer *writer, const struct an_compat_table *compat_table);
void rep_json_capture(struct rep_writer *writer, const struct an_quality *quality);

#endif
