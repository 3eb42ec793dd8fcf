# SPDX-License-Identifier: Apache-2.0
# Shared by the collector scripts: sourced, not run. Leaves the caller in an empty folder that is removed at the end.
# shellcheck shell=bash disable=SC2034
command -v sqlite3 > /dev/null || { echo "needs the program sqlite3"; exit 77; }
bin=$BUILD/tests/targets
work=$(mktemp -d "${TMPDIR:-/tmp}/collector-XXXXXX") || exit 1
cd "$work" || exit 1
bad=0
others=
cleanup() {
    cd /
    rm -rf "$work" ${others:+"$others"}
}
trap cleanup EXIT
wrong() {
    echo "FAIL: $*"
    bad=1
}
# for_other_users: makes $others, a folder that every user can read, wherever this tree lies, with copies of the programs; it fails
# where this user cannot start a program as another one. "${as_user[@]}" COMMAND...: as the user 65534
as_user=(setpriv --reuid=65534 --clear-groups env HOME=/)
for_other_users() {
    [ "$(id -u)" = 0 ] && "${as_user[@]}" true 2> /dev/null || return 1
    others=$(mktemp -d /tmp/tacho-others-XXXXXX) && chmod 755 "$others" && cp "$TACHO" "$BUILD"/*.so "$bin/target_events" "$others/" ||
        { wrong "no copies for another user"; return 1; }
    "${as_user[@]}" "$others/tacho" version > /dev/null || wrong "another user cannot start the copy in $others"
}
# expect CODE COMMAND...: output into out and err
expect() {
    local want=$1 rc
    shift
    "$@" > out 2> err < /dev/null
    rc=$?
    [ $rc = "$want" ] || wrong "exit code $rc instead of $want: $* ($(head -c 600 err))"
}
one() { sqlite3 "$1" "$2"; }
# whole FILE: a finished file, sound, without what only a live one has; nothing left beside it
whole() {
    [ -f "$1" ] || { wrong "$1: no file ($(ls))"; return 1; }
    [ "$(one "$1" 'PRAGMA integrity_check')" = ok ] || wrong "$1: integrity"
    [ "$(one "$1" "SELECT count(*) FROM sqlite_master WHERE name LIKE 'live%'")" = 0 ] || wrong "$1: live tables left"
    [ ! -e "$1.live" ] || wrong "$1.live left"
    [ "$(one "$1" "SELECT count(*) FROM run WHERE key IN ('segments','collector.pid')")" = 0 ] || wrong "$1: live keys left"
}
# books FILE LOG NAME: every thread's ranges, marks, steps, and every process's start/end ranges and counter samples are those that the
# target logged; recorded time is not more than the target's own
books() {
    one "$1" "
        CREATE TEMP TABLE m AS SELECT id FROM string WHERE text='mark';
        SELECT 'thread', p.pid, t.tid, count(*) - sum(s.name IN m), sum(s.name IN m), sum(s.dur), sum(s.dur IS NULL)
        FROM slice s JOIN track t ON t.id=s.track JOIN process p ON p.id=t.process WHERE t.kind='thread' GROUP BY p.pid, t.tid;
        SELECT 'range', p.pid, count(*), sum(s.dur IS NULL) FROM slice s JOIN track t ON t.id=s.track
        JOIN process p ON p.id=t.process WHERE t.kind='range' GROUP BY p.pid;
        SELECT 'counter', p.pid, count(*) FROM counter c JOIN track t ON t.id=c.track JOIN process p ON p.id=t.process
        WHERE t.name='count' GROUP BY p.pid;
        SELECT 'step', p.pid, count(*) FROM step s JOIN process p ON p.id=s.process GROUP BY p.pid;" | tr '|' '\t' > found
    awk -F '\t' -v name="$3" '
        FNR == NR { if ($3 < 0) next; k = $1 "/" $2; r[k] += $4; ns[k] += $5; m[k] += $6; se[$1] += $7; c[$1] += $9; st[$1] += $10; n++; next }
        $1 == "thread" { k = $2 "/" $3; fr[k] = $4; fm[k] = $5; fns[k] = $6; open += $7 }
        $1 == "range" { fse[$2] = $3; open += $4 }
        $1 == "counter" { fc[$2] = $3 }
        $1 == "step" { fst[$2] = $3 }
        END {
            for (k in r) {
                if (r[k] != fr[k] + 0) { print "FAIL: " name ": thread " k ": " r[k] " ranges logged, " fr[k] + 0 " in the file"; bad = 1 }
                if (m[k] != fm[k] + 0) { print "FAIL: " name ": thread " k ": " m[k] " marks logged, " fm[k] + 0 " in the file"; bad = 1 }
                if (ns[k] > 0 && fns[k] > ns[k] * 1.001) { print "FAIL: " name ": thread " k ": " fns[k] " ns recorded, " ns[k] " ns logged"; bad = 1 }
            }
            for (k in fr) if (!(k in r)) { print "FAIL: " name ": thread " k " is in the file and not in the log"; bad = 1 }
            for (k in se) if (se[k] != fse[k] + 0) { print "FAIL: " name ": " se[k] " start/end ranges logged, " fse[k] + 0 " in the file"; bad = 1 }
            for (k in c) if (c[k] != fc[k] + 0) { print "FAIL: " name ": " c[k] " samples logged, " fc[k] + 0 " in the file"; bad = 1 }
            for (k in st) if (st[k] != fst[k] + 0) { print "FAIL: " name ": " st[k] " steps logged, " fst[k] + 0 " in the file"; bad = 1 }
            if (open) { print "FAIL: " name ": " open " ranges without an end"; bad = 1 }
            if (!n) { print "FAIL: " name ": nothing was logged"; bad = 1 }
            if (!bad) print "ok  " name ": " n " threads"
            exit bad
        }' "$2" found || bad=1
}
# sum of aggregates = the slices on thread tracks and range tracks, in count and time
totals() {
    local a b
    a=$(one "$1" "SELECT count(*), coalesce(sum(dur),0) FROM slice WHERE dur IS NOT NULL")
    b=$(one "$1" "SELECT coalesce(sum(count),0), coalesce(sum(total),0) FROM step_aggregate")
    [ "$a" = "$b" ] || wrong "$2: slices $a, totals $b"
}
# losses FILE: rows that say that events are missing
losses() { one "$1" "SELECT coalesce(sum(count),0) FROM loss WHERE source='agent' AND reason LIKE 'event dropped%'"; }
# wait_for COMMAND...: up to a minute, which is long enough on a machine that has other work
wait_for() {
    local i
    for ((i = 0; i < 1200; i++)); do
        "$@" > /dev/null 2>&1 && return 0
        sleep 0.05
    done
    wrong "waited in vain for: $*"
    return 1
}
