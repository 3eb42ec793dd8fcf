#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# A merge onto a disk that fills up: exit code 3, words, and nothing left.
# shellcheck disable=SC2154 # variables of collector_common.sh
set -u
if [ -z "${IN_NAMESPACE:-}" ]; then
    unshare -m true 2> /dev/null || { echo "needs the right to mount a small tmpfs"; exit 77; }
    IN_NAMESPACE=1 exec unshare -m bash "$0" "$@"
fi
. "$(dirname "$0")/../kit/ranks_common.sh"
disk=$work/disk
mkdir "$disk"
trap 'cd /; umount "$disk" 2> /dev/null; rm -rf "$work"' EXIT
mount -t tmpfs -o size=1m tmpfs "$disk" || { echo "cannot mount tmpfs"; exit 77; }
for r in 0 1; do
    job 310 $r 2 2 "$TACHO" run --separate --no-peak --no-counters --overhead 0 -o node$r -- "$bin/target_events" --events 40000 --steps 40 > out 2> err ||
        wrong "node$r: $(cat err)"
done
expect 3 "$TACHO" merge --force node0.tacho node1.tacho -o "$disk/all.tacho"
grep -q 'no space left on device' err || wrong "words: $(cat err)"
grep -q '^hint: ' err || wrong "no hint: $(cat err)"
[ -z "$(ls -A "$disk")" ] || wrong "left behind: $(ls -A "$disk")"
expect 0 "$TACHO" merge --force node0.tacho node1.tacho -o all.tacho
whole all.tacho
[ "$(one all.tacho 'SELECT count(*) FROM slice')" = $(($(one node0.tacho 'SELECT count(*) FROM slice') + $(one node1.tacho 'SELECT count(*) FROM slice'))) ] ||
    wrong "slices"
exit $bad
