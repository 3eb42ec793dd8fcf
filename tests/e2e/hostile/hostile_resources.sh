#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory, descriptors, file sizes, pools, /dev/shm and disks run out, recorders are killed, $ROUNDS times: counted loss is true loss
# in each. $KINDS: only these.
# timeout: 3600
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
if [ -z "${INSIDE:-}" ] && unshare -m true 2> /dev/null; then
    INSIDE=1 exec unshare -m "$0" "$@"
fi
. "$(dirname "$0")/../kit/collector_common.sh"
. "$SRC/tests/e2e/kit/resources_common.sh"
kinds=(out_of_memory few_descriptors small_files small_pool recorder_killed)
if [ -n "${INSIDE:-}" ] && mount -t tmpfs -o size=300m none /dev/shm 2> /dev/null; then
    kinds+=(full_memory full_disk)
fi
[ -z "${KINDS:-}" ] || read -ra kinds <<< "$KINDS"
for ((i = 0; i < ${ROUNDS:-20}; i++)); do
    "${kinds[i % ${#kinds[@]}]}" "$i"
done
result="ok, ${#kinds[@]} kinds"
[ $bad = 0 ] || result=FAILED
echo "hostile: resources | $rounds_done rounds | $result"
exit $bad
