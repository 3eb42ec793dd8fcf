/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of processes and threads as events of Kineto, and the memory of open slices.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/perfetto/perfetto_private.h"
#include "store/store.h"

int perfetto_emit_name(struct perfetto *perfetto, const char *what, int64_t pid, int64_t tid,
                       struct pb_span name)
{
    struct kineto_text text = {0};
    char pid_text[24], tid_text[24];
    kineto_json_string(&text, (const char *)name.data, name.bytes);
    struct kj_arg arg = {.key = kineto_span("name"), .id = kineto_arg_find("name", 4)};
    struct kj_event event = {.arg = &arg, .arg_count = 1};
    snprintf(pid_text, sizeof pid_text, "%" PRId64, pid);
    snprintf(tid_text, sizeof tid_text, "%" PRId64, tid == STORE_ABSENT ? 0 : tid);
    arg.value = (struct kj_span){text.data, text.bytes};
    event.field[KJ_PH] = kineto_span("\"M\"");
    event.field[KJ_NAME] = kineto_span(what);
    event.field[KJ_PID] = kineto_span(pid_text);
    event.field[KJ_TID] = kineto_span(tid_text);
    int rc = text.failed ? TACHO_ENOMEM : perfetto->emit(perfetto->to, &event);
    kineto_text_clear(&text);
    return rc;
}

void perfetto_open_clear(struct perfetto_open *open)
{
    kineto_text_clear(&open->text);
    free(open->arg);
}
