/* SPDX-License-Identifier: Apache-2.0
 *
 * `tacho capture`: opens a window for device work in a run that is being recorded on this machine.
 * The window begins so far ahead of the newest step of any process that all of them see the control
 * word in time.
 */
#include <stdio.h>

#include "profiler/collector/job/capture_view_private.h"
#include "profiler/collector/job/gpu_env.h"
#include "profiler/collector/job/job_capture.h"
#include "profiler/collector/job/live.h"
#include "profiler/collector/os/clock.h"

#define LOOK_MS  300 /* between two looks at the pace of steps */
#define MARGIN   2   /* steps, at least */
#define REACH_MS 300
/* Waits until all processes are past the window. */
static void wait_for(const struct col_view *view, struct col_capture *capture)
{
    for (bool all = false; !all;) {
        col_sleep_ms(50);
        capture->done = 0;
        for (int i = 0; i < view->count; i++)
            capture->done += col_view_is_through(view, i, capture->to);
        all = capture->done == view->count;
    }
}

int col_capture(const char *live, struct col_capture *capture, struct tacho_error *err)
{
    char segments[COL_PATH_MAX];
    struct col_view view;
    int rc = col_live_check_owner(live, err);
    if (rc)
        return rc;
    if (col_job_capture_folder_of(live, segments))
        return col_job_capture_ask(segments, capture, err);
    snprintf(segments, sizeof segments, "%.*s/segments", COL_PATH_MAX - 16, live);
    enum wire_capture mode;
    rc = col_control_mode(segments, &mode);
    if (rc)
        return tacho_fail(err, rc, NULL, "%s: the run has no control file: %s", live,
                          tacho_error_text(rc));
    if (mode == WIRE_CAPTURE_ALL)
        return tacho_fail(err, TACHO_EUSAGE,
                          "start it with --gpu later to record some steps on demand",
                          "%s: all of its work on GPUs is recorded already", live);
    col_view_open(&view, segments);
    capture->processes = view.count;
    if (!view.count)
        return tacho_fail(
            err, TACHO_ENOTFOUND,
            "it has not started CUDA yet, or CUPTI refused: see the losses of the run",
            "%s: no process of the run can record work on GPUs now", live);
    capture->from = capture->to = -1;
    if (capture->ns > 0) {
        rc = col_control_set(segments, WIRE_CAPTURE_UNTIL, 0, 0, 1, capture->ns);
        if (rc == 0 && capture->wait)
            col_sleep_ms((long)(capture->ns / 1000000));
    } else {
        int64_t before = col_view_next_step(&view);
        col_sleep_ms(LOOK_MS);
        int64_t now = col_view_next_step(&view),
                ahead = (now - before) * REACH_MS / LOOK_MS + MARGIN;
        capture->from = capture->at >= 0 ? capture->at : now + ahead;
        capture->to = capture->from + capture->steps - 1;
        rc = col_control_set(segments, WIRE_CAPTURE_STEPS, capture->from, capture->to, 1, 0);
        if (rc == 0 && capture->wait)
            wait_for(&view, capture);
    }
    col_view_close(&view);
    return rc ? tacho_fail(err, rc, NULL, "%s: %s", segments, tacho_error_text(rc)) : 0;
}

int col_capture_job(const char *folder, struct col_capture *capture, struct tacho_error *err)
{
    char meeting[COL_PATH_MAX];
    if (!col_job_capture_find(folder, meeting))
        return tacho_fail(
            err, TACHO_ENOTFOUND, "name a run: NAME.tacho.live",
            "%s: not the folder of one job on several machines, started with --gpu later", folder);
    return col_job_capture_ask(meeting, capture, err);
}
