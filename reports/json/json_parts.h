/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: sections of tacho-report/1 that have a file of their own, beside those of
 * accelerators (json_gpu.h).
 */
#ifndef REPORTS_JSON_PARTS_H
#define REPORTS_JSON_PARTS_H

#include "reports/json/json_writer.h"

void rep_json_loader(struct rep_writer *writer, const struct an_loader *loader);
void rep_json_critical_path(struct rep_writer *writer, const struct an_critical_path *path);
void rep_json_advice(struct rep_writer *writer, const struct an_result *result);
void rep_json_ranks(struct rep_writer *writer, const struct an_ranks *ranks);
void rep_json_communication(struct rep_writer *writer,
                            const struct an_communication *communication);

#endif
