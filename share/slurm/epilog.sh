#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Epilog of Slurm: ends the watch of the job and removes its samples, so that node_exporter does not go on to export them.
#   slurm.conf: Epilog=/usr/local/share/tacho/slurm/epilog.sh
set -u
name=tacho-job-${SLURM_JOB_ID:-0}
for folder in "${TACHO_TEXTFILES:-/var/lib/prometheus/node-exporter}" "${TMPDIR:-/tmp}"; do
    pid=
    [ -f "$folder/$name.pid" ] && pid=$(head -c 16 "$folder/$name.pid" 2> /dev/null)
    case ${pid:-none} in
    *[!0-9]*) ;;
    *)
        # the file is the user's: only a process of this name and of that user is ended
        if [ "$(cat "/proc/$pid/comm" 2> /dev/null)" = tacho ] &&
            [ "$(stat -c %u "/proc/$pid")" = "${SLURM_JOB_UID:-$(id -u)}" ]; then
            kill "$pid" 2> /dev/null
        fi
        ;;
    esac
    rm -f "$folder/$name.pid" "$folder/$name.prom"
done
exit 0
