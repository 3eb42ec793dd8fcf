/* SPDX-License-Identifier: Apache-2.0
 *
 * A `tacho run` that is not the first one of its job on this node (peers.h).
 */
#ifndef COL_ATTACH_H
#define COL_ATTACH_H

#include "profiler/collector/run/session.h"

/* Looks for the recording of this job on this node. Returns a connected descriptor (session->live
 * has its folder and segments), or -1: this process records, for others too if
 * session->peers.listener is open. */
int col_attach(struct col_session *session);

/* Starts the target with the leader's segments and waits for it. Its exit code is in the result, as
 * by col_run. If the leader dies, this process or another peer goes on in its place; if none can,
 * the live folder is left for `tacho recover`. */
int col_attach_run(struct col_session *session, int fd, const char *library,
                   struct tacho_error *err);

#endif
