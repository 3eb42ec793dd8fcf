#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# What the dashboard needs at most: of a run that is over and just small enough to be analysed whole, and of a larger one, of which
# it analyses a part and has a child analyse the whole. 30 MiB, without the pages of files that it shares with others (its libraries).
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
[ -z "${SAN:-}" ] || { echo "the sanitizers keep memory of their own"; exit 77; }
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work_folder top-memory
"$TRAIN" gpt2-tiny --help > /dev/null 2>&1 || { echo "needs the program train"; exit 77; }
export OMP_NUM_THREADS=1 XDG_CACHE_HOME=$PWD/cache # no calibration of others
most=30720 # KiB

# shellcheck disable=SC2154 # work_folder sets it
"$TACHO" run -o run.tacho -- "$TRAIN" gpt2-tiny --data "$SRC/LICENSE" --steps 70 --workers 0 --batch 1 --seq 8 \
    --slow collate=0.004 > "$work/out" 2>&1 || fail "no run: $(cat "$work/out")"
have=$(sqlite3 run.tacho 'SELECT count(*) FROM slice')
[ "$have" -gt 5000 ] || fail "only $have ranges were recorded"

# grown RANGES: the run again and again, one behind the other, until it has at least so many ranges
grown() {
    local i
    cp run.tacho "$1.tacho"
    for ((i = 1; i * have < $1; i++)); do
        echo "INSERT INTO slice (track, start, dur, name, category, detail, correlation) SELECT track, start + $i * span, dur, name,
                  category, detail, correlation FROM slice, whole WHERE id <= $have ORDER BY id;
              INSERT INTO step SELECT process, \"index\" + $i * n, start + $i * span, \"end\" + $i * span, tokens, samples, paused
                  FROM step, whole WHERE step.rowid <= n;
              INSERT INTO step_aggregate SELECT process, step + $i * n, track, name, category, detail, count, total, self, steps
                  FROM step_aggregate, whole WHERE step >= 0 AND step < n;"
    done > sql
    { echo "BEGIN; CREATE TEMP TABLE whole AS SELECT max(\"end\") - min(start) + 1000000 AS span, count(*) AS n FROM step;"
      cat sql; echo "COMMIT;"; } | sqlite3 "$1.tacho" || fail "the run could not be made longer"
}

# needs RANGES: the memory of the dashboard when it has analysed the whole run at once
needs() {
    local pid kib window
    "$TACHO" top --json --interval 1 -n 1000 "$1.tacho" > "$1.lines" 2> "$work/err" &
    pid=$!
    for _ in $(seq 1200); do
        grep -q '"report":{' "$1.lines" && break
        sleep 0.1
    done
    kib=$(awk '/^VmHWM/ { most = $2 } /^RssFile/ { most -= $2 } END { print most }' "/proc/$pid/status" 2> /dev/null)
    kill $pid 2> /dev/null
    wait $pid
    window=$(grep -o '"window":[^,]*' "$1.lines" | tail -n 1)
    echo "$1 ranges and more: at most $kib KiB, $window"
    [ "$window" = '"window":null' ] || fail "not the whole run"
    [ "${kib:-0}" -gt 1000 ] || fail "it ended before it was looked at: $(cat "$work/err")"
    [ "$kib" -le $most ] || fail "more than $most KiB"
}

# follows RANGES: a part is analysed at once, then a child analyses all of it: what the dashboard has of that is what the report says, and its
# memory stays below
follows() {
    local pid kib seen=0
    "$TACHO" top --json --interval 0.3 "$1.tacho" > "$1.all" 2> "$work/err" &
    pid=$!
    for _ in $(seq 1200); do
        kib=$(awk '/^VmHWM/ { most = $2 } /^RssFile/ { most -= $2 } END { print most }' "/proc/$pid/status" 2> /dev/null) || break
        [ -n "$kib" ] && seen=$kib
        kill -0 $pid 2> /dev/null || break
        sleep 0.1
    done
    wait $pid || fail "top of $1 ranges: $(cat "$work/err")"
    echo "$1 ranges, all of them: at most ${seen:-?} KiB"
    [ "${seen:-0}" -gt 1000 ] && [ "$seen" -le $most ] || fail "${seen:-unknown} KiB, not $most at most"
    "$TACHO" report --json "$1.tacho" > "$1.report" || fail "no report"
    python3 - "$1" << 'PY' || fail "the whole run: $(tail -c 400 "$1.all")"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1] + ".all")]
report = json.load(open(sys.argv[1] + ".report"))
assert lines[0]["window"].startswith("steps "), lines[0]["window"]
assert lines[-1]["window"] is None and lines[-1]["state"] == "ended", lines[-1]["window"]
for key in ("verdict", "steps", "budget", "findings", "trust"):
    assert lines[-1]["report"][key] == report[key], (key, lines[-1]["report"][key], report[key])
PY
}

whole=$((64000 / have * have))
grown $whole
needs $whole
grown 66000
follows 66000
