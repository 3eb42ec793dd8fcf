#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# TaskProlog of Slurm: starts one watch on each node of a job that asks for it with `export TACHO_WATCH=/path/run.tacho`
# before srun. Its samples go to the textfile collector of node_exporter: no port is opened.
#   slurm.conf: TaskProlog=/usr/local/share/tacho/slurm/prolog.sh   (the Epilog removes what is left)
# Lines on stdout are read by Slurm, so that everything else goes elsewhere. A failure never fails the task.
set -u
folder=${TACHO_TEXTFILES:-/var/lib/prometheus/node-exporter}
if [ -z "${TACHO_WATCH:-}" ] || [ "${SLURM_LOCALID:-0}" != 0 ] || ! command -v tacho > /dev/null; then
    exit 0
fi
[ -w "$folder" ] || folder=${TMPDIR:-/tmp}
name=tacho-job-${SLURM_JOB_ID:-0}
setsid nohup tacho watch --textfile "$folder/$name.prom" "$TACHO_WATCH" > /dev/null 2>&1 < /dev/null &
echo "$!" > "$folder/$name.pid" 2> /dev/null
exit 0
