#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# A disk with little room: the file fits although its WAL alone would not have. A disk with no room: the target ends as it would
# have, the message says what to do, and the recording is finished once there is room.
set -u
if [ -z "${IN_NAMESPACE:-}" ]; then
    unshare -m true 2> /dev/null || { echo "needs the right to mount a small tmpfs"; exit 77; }
    IN_NAMESPACE=1 exec unshare -m bash "$0" "$@"
fi
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder full
disk=$work/disk
mkdir "$disk"
room() { # SIZE: an empty disk
    cd "$work/here" || exit 1
    umount "$disk" 2> /dev/null
    mount -t tmpfs -o size="$1" tmpfs "$disk" || { echo "cannot mount tmpfs"; exit 77; }
    cd "$disk" || exit 1
}
trap 'cd /; umount "$disk" 2> /dev/null; rm -rf "$work"' EXIT

small=(--steps 60 --batch 1 --seq 16) # the rows do not depend on the sizes
# a file of about 400 KiB, rewritten ten times over in the WAL, on a disk of 1 MiB
room 1m
expect 0 "$TACHO" run -o tight --no-peak -- "$TRAIN" gpt2-tiny "${small[@]}"
[ -f tight.tacho ] && [ ! -e tight.tacho.live ] || fail "little room: $(cat "$work/err")"
[ "$(sqlite3 tight.tacho 'PRAGMA integrity_check')" = ok ] || fail "integrity"
[ "$(sqlite3 tight.tacho 'SELECT count(*) FROM step')" = 60 ] || fail "steps"

# saving results and writing reports when it is full: nothing changes, nothing is left
dd if=/dev/zero of=fill bs=4k 2> /dev/null
cp tight.tacho "$work/before"
expect 3 "$TACHO" report tight.tacho --json -o report.json
[ ! -e report.json ] && [ -z "$(find . -name '.report*')" ] || fail "half a report: $(ls -A)"
"$TACHO" report tight.tacho --save > /dev/null 2> "$work/err"
[ "$(sqlite3 tight.tacho 'PRAGMA integrity_check; SELECT count(*) FROM step')" = $'ok\n60' ] || fail "a failed --save did harm"

# no room from some moment on
room 8m
dd if=/dev/zero of=fill bs=1k count=7800 2> /dev/null
expect 0 "$TACHO" run -o none --no-peak -- "$TRAIN" gpt2-tiny "${small[@]}"
if [ ! -f none.tacho ]; then
    grep -q 'no space left on device' "$work/err" || fail "no room: $(cat "$work/err")"
    grep -q 'tacho recover none.tacho.live' "$work/err" || fail "what to do is not said: $(cat "$work/err")"
    rm fill
    expect 0 "$TACHO" recover none
fi
[ -f none.tacho ] && [ ! -e none.tacho.live ] || fail "not finished: $(ls -A; cat "$work/err")"
[ "$(sqlite3 none.tacho 'PRAGMA integrity_check')" = ok ] || fail "integrity"
expect 0 "$TACHO" report none.tacho
echo "note: steps kept without room: $(sqlite3 none.tacho 'SELECT count(*) FROM step') of 60"

# ---- verify, whose runs fill the disk: it says why, keeps nothing half-measured, and leaves the run as it was
room 4m
expect 0 "$TACHO" run -o slow --no-peak -- "$TRAIN" gpt2-tiny "${small[@]}"
before=$(cksum < slow.tacho)
used=$(du -k slow.tacho | cut -f1)
dd if=/dev/zero of=filler bs=1k count=$((4096 - 7 * used / 2)) 2> /dev/null
expect 3 "$TACHO" verify slow.tacho --set --batch=2 --pairs 3
grep -q 'left no recording' "$work/err" && grep -q 'No space left\|no space' "$work/err" || fail "verify on a full disk: $(cat "$work/err")"
[ "$(find . -mindepth 1 ! -name filler ! -name slow.tacho | wc -l)" = 0 ] || fail "verify left $(ls -a)"
[ "$(cksum < slow.tacho)" = "$before" ] || fail "verify changed the run"
