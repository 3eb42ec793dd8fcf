#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# Exports of real traces: valid by python's JSON and CSV readers, complete, exact in ns, nested on each lane, arrows that lie in
# their slices; Kineto -> Perfetto JSON (or protocol buffers) -> import gives the same device unions and the same count and sum of
# each name; a profile of pprof has the stacks and times of the folded ones.
set -u
. "$(dirname "$0")/../kit/cli_common.sh"
TRACES=${TACHO_TRACES:-$SRC/../shared/traces}
[ -f "$TRACES/hta_trace_diff_test_rank1.json.gz" ] || { echo "needs the shared traces (TACHO_TRACES)"; exit 77; }
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
work_folder export

cat > "$work/check.py" << 'EOF'
import csv, gc, json, sqlite3, sys
gc.disable()  # a trace is a hundred thousand objects that live to the end: looking for others takes most of the time
run, perfetto, folded, table = sys.argv[1:5]
db = sqlite3.connect(run)
rows = db.execute("""SELECT s.start, s.dur, (SELECT text FROM string WHERE id=s.name), (SELECT text FROM string WHERE id=s.category),
    correlation, t.kind, t.process, t.device, t.tid, s.track FROM slice s JOIN track t ON t.id=s.track""").fetchall()
failures = []
def check(ok, what):
    if not ok:
        failures.append(what)
# --- perfetto
doc = json.load(open(perfetto, encoding="utf-8"), parse_float=str)  # strict: control characters would fail
base, events = doc["baseTimeNanoseconds"], doc["traceEvents"]
def ns(us):
    whole, _, decimals = us.partition(".")
    assert len(decimals) == 3, us + " has not three decimals"
    return int(whole + decimals)
check(base == min(r[0] for r in rows), "base is the first event")
slices = [e for e in events if e["ph"] in "XBi"]
check(len(slices) == len(rows), f"{len(slices)} slices instead of {len(rows)}")
for e in slices:
    e["start"] = ns(e["ts"])
    e["length"] = ns(e["dur"]) if e["ph"] == "X" else 0 if e["ph"] == "i" else -1
got = sorted((base + e["start"], e["length"], e["name"]) for e in slices)
want = sorted((r[0], -1 if r[1] is None else r[1], r[2]) for r in rows)
check(got == want, "times and names")
lanes = {}
for e in slices:
    end = e["start"] + e["length"] if e["ph"] != "B" else 1 << 62
    lanes.setdefault((e["pid"], e["tid"]), []).append((e["start"], -end))
for lane, items in lanes.items():
    open_ = []
    for s, e in sorted(items):
        while open_ and open_[-1] <= s:
            open_.pop()
        if open_ and -e > open_[-1]:
            check(False, f"overlap on {lane}")
            break
        open_.append(-e)
named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
check(set(lanes) <= named, "every lane has a name")
check({p for p, _ in lanes} <= {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}, "every process has a name")
starts = {e["id"]: e for e in events if e["ph"] == "s"}
ends = {e["id"]: e for e in events if e["ph"] == "f"}
check(set(starts) == set(ends), "arrows have two ends")
at = {(e["pid"], e["tid"], e["ts"]) for e in slices}
check(all((e["pid"], e["tid"], e["ts"]) in at for e in list(starts.values()) + list(ends.values())), "arrows lie in slices")
calls = {(r[6], r[4]) for r in rows if r[5] == "thread" and r[3] in ("runtime", "driver") and r[4] is not None}
linked = sum(1 for r in rows if r[5] == "stream" and r[3] not in ("sync", "annotation") and (r[6], r[4]) in calls)
check(len(ends) == linked, f"{len(ends)} arrows instead of {linked}")
# --- CSV
with open(table, newline="", encoding="utf-8") as f:
    cells = list(csv.DictReader(f))
check(sorted((int(c["start_ns"]), int(c["dur_ns"] or -1), c["name"], c["category"]) for c in cells)
      == sorted((r[0], -1 if r[1] is None else r[1], r[2] or "", r[3] or "") for r in rows), "CSV rows")
check(all(None not in c and None not in c.values() for c in cells), "CSV columns")
# --- folded: on each track the self times add up to the union of its slices
total = {}
for line in open(folded, encoding="utf-8", newline="\n"):
    stack, value = line.rstrip("\n").rsplit(" ", 1)
    check(int(value) > 0 and ";" in stack, "folded line")
    total[0] = total.get(0, 0) + int(value)
tracks = {}
for r in rows:
    if r[1]:
        tracks.setdefault(r[9], []).append((r[0], -r[0] - r[1]))
covered, nested = 0, True
for items in tracks.values():
    end, stack = None, []
    for s, e in ((s, -e) for s, e in sorted(items)):
        while stack and stack[-1] <= s:
            stack.pop()
        nested = nested and not (stack and e > stack[-1])
        stack.append(e)
        if end is None or s > end:
            covered += e - s
            end = e
        elif e > end:
            covered += e - end
            end = e
if nested:
    check(total.get(0, 0) == covered, f"self times {total.get(0)} instead of {covered}")
else:
    check(total.get(0, 0) >= covered, "self times less than the union")
print("\n".join(failures[:20]))
sys.exit(1 if failures else 0)
EOF
for trace in hta_trace_diff_test_rank1 hta_ns_resolution_rank0 tracelens_mi300_resnet_act_checkpoint_rank0 \
    hta_critical_path_simple_add_rank0; do
    expect 0 "$TACHO" import "$TRACES/$trace.json.gz" -o a.tacho
    expect 0 "$TACHO" export a.tacho -o a.json
    expect 0 "$TACHO" export a.tacho --format folded --output a.folded
    expect 0 "$TACHO" export a.tacho --format=csv -o a.csv
    python3 "$work/check.py" a.tacho a.json a.folded a.csv > "$work/out" 2>&1 || fail "$trace: $(cat "$work/out")"
    expect 0 "$TACHO" import a.json -o b.tacho
    python3 "$here/round_trip.py" a.tacho b.tacho > "$work/out" 2>&1 || fail "$trace, round trip: $(cat "$work/out")"
    [ $trace != hta_trace_diff_test_rank1 ] || cp a.tacho w.tacho
    case $trace in hta_ns* | hta_crit*) ;; *) rm -f a.* b.*; continue ;; esac # two are enough of what follows
    expect 0 "$TACHO" export a.tacho --format perfetto-proto -o a.pftrace
    [ $((2 * $(stat -c %s a.pftrace))) -lt "$(stat -c %s a.json)" ] || fail "$trace: protocol buffers are not half the JSON"
    expect 0 "$TACHO" import a.pftrace -o p.tacho
    python3 "$here/round_trip.py" a.tacho p.tacho > "$work/out" 2>&1 || fail "$trace, by protocol buffers: $(cat "$work/out")"
    [ $trace = hta_critical_path_simple_add_rank0 ] || { rm -f a.* b.* p.*; continue; }
    expect 0 "$TACHO" export a.tacho --format pprof -o a.pb
    python3 "$here/profiles.py" pprof a.pb a.folded > "$work/out" 2>&1 || fail "$trace, pprof: $(cat "$work/out")"
    rm -f p.tacho
    rm -f a.* b.*
done

# an Nsight export: several processes, a foreign file as the RUN
expect 0 "$TACHO" import "$TRACES/nsys_mfu_2gpu_after.sqlite.gz" -o n.tacho
expect 0 "$TACHO" export "$TRACES/nsys_mfu_2gpu_after.sqlite.gz" -o n.json
expect 0 "$TACHO" export n.tacho -f folded -o n.folded
expect 0 "$TACHO" export n.tacho -f csv -o n.csv
python3 "$work/check.py" n.tacho n.json n.folded n.csv > "$work/out" 2>&1 || fail "nsight: $(cat "$work/out")"

# windows
count() { python3 -c 'import json,sys; print(sum(e["ph"] in "XBi" for e in json.load(open(sys.argv[1]))["traceEvents"]))' "$1"; }
expect 0 "$TACHO" export w.tacho --from 100ms --to 0.2s -o w.json
first=$(sqlite3 w.tacho 'SELECT min(start) FROM slice')
inside=$(sqlite3 w.tacho "SELECT count(*) FROM slice WHERE start < $first + 200000000 AND start + dur > $first + 100000000 OR dur = 0 AND start = $first + 100000000")
[ "$(count w.json)" = "$inside" ] || fail "window: $(count w.json) instead of $inside"
step=$(sqlite3 w.tacho "SELECT CAST(substr(text, 14) AS INTEGER) FROM string WHERE text GLOB 'ProfilerStep#*' ORDER BY 1 LIMIT 1 OFFSET 1")
expect 0 "$TACHO" export w.tacho --steps "$step:$step" -o s.json
[ "$(count s.json)" -gt 0 ] && [ "$(count s.json)" -lt "$(sqlite3 w.tacho 'SELECT count(*) FROM slice')" ] || fail "steps"
expect 3 "$TACHO" export w.tacho --steps 999999:
grep -q 'no such steps' "$work/err" || fail "$(cat "$work/err")"
expect 2 "$TACHO" export w.tacho --steps 1:2 --from 1s
expect 2 "$TACHO" export w.tacho --from tomorrow
expect 2 "$TACHO" export w.tacho --format png

# hostile names, what never ended, counters
rm -f w.tacho w.json s.json
expect 0 "$TACHO" import "$TRACES/hta_trace_filter_2ranks_rank0.json.gz" -o w.tacho
sqlite3 w.tacho "UPDATE string SET text = 'a;b\"c' || char(10) || char(1) || '\\%,' WHERE id = (SELECT name FROM slice LIMIT 1);
    UPDATE slice SET dur = NULL WHERE id % 500 = 7;
    INSERT INTO track(process, kind, name, unit) VALUES (1, 'counter', 'loss', 'nats');
    INSERT INTO counter(track, time, value) SELECT (SELECT max(id) FROM track), start, 0.5 FROM slice WHERE id % 1000 = 1;
    INSERT INTO counter(track, time, value) SELECT (SELECT max(id) FROM track), start, NULL FROM slice WHERE id % 1000 = 2"
for format in perfetto perfetto-proto folded pprof csv; do expect 0 "$TACHO" export w.tacho --format $format -o w.$format; done
python3 "$work/check.py" w.tacho w.perfetto w.folded w.csv > "$work/out" 2>&1 || fail "hostile: $(cat "$work/out")"
counters=$(sqlite3 w.tacho 'SELECT count(*) FROM counter WHERE value IS NOT NULL')
[ "$(grep -c '"ph":"C"' w.perfetto)" = "$counters" ] || fail "counters"
sqlite3 w.tacho "UPDATE detail SET payload = '{\"a\": nonsense' WHERE payload IS NOT NULL"
expect 0 "$TACHO" export w.tacho -o p.json
python3 -c 'import json; json.load(open("p.json", encoding="utf-8"))' || fail "a broken payload broke the file"


# values that no recorder writes: the file stays valid
for value in 9223372036854775807 -9223372036854775807 0 4611686018427387904; do
    cp w.tacho odd.tacho
    sqlite3 odd.tacho "UPDATE slice SET start = $value WHERE id % 50 = 3; UPDATE slice SET dur = $value WHERE id % 50 = 4;
        UPDATE slice SET name = $value, category = $value, detail = $value, correlation = $value WHERE id % 50 = 5;
        UPDATE slice SET track = $value WHERE id % 50 = 6; UPDATE track SET tid = $value WHERE id % 2; UPDATE counter SET time = $value WHERE id % 3 = 0;
        UPDATE process SET pid = $value, rank = $value"
    for format in perfetto perfetto-proto folded pprof csv; do expect 0 "$TACHO" export odd.tacho --format $format -o odd.$format; done
    mv odd.perfetto "odd.$value.json"
done
python3 -c 'import json, sys
for name in sys.argv[1:]: json.load(open(name, encoding="utf-8"))' odd.*.json > "$work/out" 2>&1 || fail "odd times broke a file: $(cat "$work/out")"
[ "$(find . -name 'odd.*.json' | wc -l)" = 4 ] || fail "an odd file is missing"
rm -f odd.*

# nothing half-written
ls > before
[ -c /dev/full ] && { expect 3 sh -c "'$TACHO' export w.tacho > /dev/full"; }
expect 3 "$TACHO" export w.tacho -o nowhere/x.json
(ulimit -f 64; "$TACHO" export w.tacho -o big.json > "$work/out" 2> "$work/err") && fail "a limit on file sizes went unnoticed"
"$TACHO" export w.tacho 2> "$work/err" | head -c 100 > /dev/null
rm -f core*
ls > after
[ "$(grep -v after after)" = "$(cat before)" ] || fail "left behind: $(diff before after)"
exit 0
