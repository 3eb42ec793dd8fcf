#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# An import onto a disk that fills up: exit code 3, words, and nothing left; with room it works; an existing file stays as it is.
set -u
if [ -z "${IN_NAMESPACE:-}" ]; then
    unshare -m true 2> /dev/null || { echo "needs the right to mount a small tmpfs"; exit 77; }
    IN_NAMESPACE=1 exec unshare -m bash "$0" "$@"
fi
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder import
# shellcheck disable=SC2154  # work comes from work_folder
disk=$work/disk
mkdir "$disk"
trap 'cd /; umount "$disk" 2> /dev/null; rm -rf "$work"' EXIT
mount -t tmpfs -o size=1m tmpfs "$disk" || { echo "cannot mount tmpfs"; exit 77; }

# 60,000 operators of which each has a name of its own: several MiB
awk 'BEGIN {
    print "{\"traceEvents\":["
    for (i = 0; i < 60000; i++)
        printf "%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"operator number %d\",\"pid\":1,\"tid\":1,\"ts\":%d.%03d,\"dur\":0.5}\n", i ? "," : "", i, 1000 + i, i % 1000
    print "]}"
}' > trace.json
expect 3 "$TACHO" import trace.json -o "$disk/run.tacho"
grep -q 'no space left on device' "$work/err" || fail "words: $(cat "$work/err")"
grep -q '^hint: ' "$work/err" || fail "no hint: $(cat "$work/err")"
[ -z "$(ls -A "$disk")" ] || fail "left behind: $(ls -A "$disk")"

expect 0 "$TACHO" import trace.json -o run.tacho
[ "$(sqlite3 run.tacho 'PRAGMA integrity_check; SELECT count(*), sum(dur) FROM slice')" = $'ok\n60000|30000000' ] || fail "rows"
cp run.tacho before
expect 3 "$TACHO" import trace.json -o run.tacho
cmp -s run.tacho before || fail "an existing file was changed"

# no right to write there
mkdir closed && chmod 555 closed
if [ "$(id -u)" != 0 ]; then
    expect 4 "$TACHO" import trace.json -o closed/run.tacho
    [ -z "$(ls -A closed)" ] || fail "left behind in a closed folder"
fi
# a folder that is not there
expect 3 "$TACHO" import trace.json -o missing/run.tacho
