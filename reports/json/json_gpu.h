/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: the sections of tacho-report/1 that accelerators fill. On a run without one
 * each is null with the reason.
 */
#ifndef REPORTS_JSON_GPU_H
#define REPORTS_JSON_GPU_H

#include "reports/json/json_writer.h"

void rep_json_devices(struct rep_writer *w, const struct an_result *r);
void rep_json_energy(struct rep_writer *w, const struct an_energy *e);
void rep_json_counted(struct rep_writer *w, const struct an_result *r);
void rep_json_hardware(struct rep_writer *w, const struct an_result *r);
void rep_json_roofline(struct rep_writer *w, const struct an_result *r);
void rep_json_compute_absent(struct rep_writer *w, const struct an_result *r);
void rep_json_host_to_device(struct rep_writer *w,
                             const struct an_result *r); /* launches, copies, syncs, precision */
void rep_json_attribution(struct rep_writer *w, const struct an_attribution *a);
void rep_json_compat(struct rep_writer *w, const struct an_compat_table *t);
void rep_json_capture(struct rep_writer *w, const struct an_quality *q);

#endif
