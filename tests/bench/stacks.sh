#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What sampled call stacks cost: the engine's gpt2-tiny, which keeps all its cores busy, under tacho without --stacks, with them by
# frame pointers, and by unwind tables; rounds in turn, medians. CPU time (of the collector, and of the target for a step) is judged
# beside the time of a step: other programs on the machine disturb it less. Then a Python program that calls deep, sampled 2,000
# times a second of CPU time: what one sample costs. Rows of four columns separated by tabs: what, measured, budget, verdict. A
# difference inside the noise floor (that of without against without) is no overrun, and where the floor is five budgets high none is ok.
# usage: tests/bench/stacks.sh BUILD      environment: BENCH_ROUNDS (5), PYTHON312 (python3): from 3.12 on its functions are frames
set -u
build=${1:?BUILD}
rounds=${BENCH_ROUNDS:-5}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cat > "$work/deep.py" << 'PY'
import json, time
def work(ms):
    until = time.process_time() + ms / 1e3
    d = {"a": [1, 2, 3, {"b": "x" * 50}]}
    while time.process_time() < until:
        d["c"] = len(json.dumps(json.loads(json.dumps(d)), indent=1)) + sum(sorted(range(200), key=lambda x: -x))
def call(depth, ms):
    return call(depth - 1, ms) if depth else work(ms)
for i in range(15):
    call(i, 200)
PY
# one WHO SECONDS-OPTION... -- COMMAND...: a line of numbers; absent ones are nan
one() {
    local who=$1
    shift
    rm -f "$work/x.tacho"
    "$build/tacho" run --no-hook --no-peak --no-counters --overhead 0 -o "$work/x.tacho" "$@" > /dev/null 2>&1 || exit 1
    python3 - "$work/x.tacho" >> "$work/$who" << 'PY'
import sqlite3, sys
d = sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True)
metric = dict(d.execute("SELECT name, value FROM metric"))
key = dict(d.execute("SELECT key, value FROM run"))
wall = int(key["end.monotonic_ns"]) - int(key["start.monotonic_ns"])
step = sorted(e - s for s, e in d.execute('SELECT start, "end" FROM step WHERE "end" > 0'))
samples, = d.execute("SELECT count(*) FROM sample").fetchone()
depth, = d.execute("""WITH RECURSIVE w(id, depth) AS (SELECT id, 1 FROM stack WHERE parent IS NULL UNION ALL
    SELECT stack.id, depth + 1 FROM stack JOIN w ON stack.parent = w.id) SELECT avg(depth) FROM sample JOIN w ON w.id = value""").fetchone()
lost, = d.execute("SELECT coalesce(sum(count), 0) FROM loss WHERE source = 'stacks'").fetchone()
collector = metric["collector.user_time"] + metric["collector.system_time"]
target = metric["target.user_time"] + metric["target.system_time"]
nan = float("nan")
print(step[len(step) // 2] / 1e6 if step else nan, 100 * collector / wall, target / 1e6 / len(step) if step else nan, collector / 1e3, samples,
      depth or 0, lost)
PY
}
for ((i = 0; i < rounds; i++)); do
    one plain -- "$build/train" gpt2-tiny --steps 150
    one frames --unwind frames -- "$build/train" gpt2-tiny --steps 150
    one again -- "$build/train" gpt2-tiny --steps 150
    one tables --unwind tables -- "$build/train" gpt2-tiny --steps 150
    one deep.plain -- "${PYTHON312:-python3}" "$work/deep.py"
    one deep --stacks-hz 2000 --unwind tables -- "${PYTHON312:-python3}" "$work/deep.py"
done
python3 - "$work" << 'PY'
import statistics as st, sys
def rows(who):
    return [[float(x) for x in line.split()] for line in open(sys.argv[1] + "/" + who)]
STEP, SHARE, CPU, COLLECTOR, SAMPLES, DEPTH, LOST = range(7)
def column(who, at):
    return [r[at] for r in rows(who)]
def verdict(value, budget, floor):  # where without differs from itself by so much, nothing can be told
    return "noise" if floor > 5 * budget else "ok" if value <= budget else "noise" if value <= floor else "OVER"
def relative(who, at):  # percent more than without, and the largest difference of without to itself
    plain, again = column("plain", at), column("again", at)
    base = [(a + b) / 2 for a, b in zip(plain, again)]
    return [100 * (v / b - 1) for v, b in zip(column(who, at), base)], max(abs(100 * (a / b - 1)) for a, b in zip(plain, again))
for who, name in (("frames", "frame pointers"), ("tables", "unwind tables")):
    for at, what in ((STEP, "a step of gpt2-tiny"), (CPU, "the target's CPU time for a step")):
        s, floor = relative(who, at)
        middle = st.median(s)
        print("%s with --stacks, %s\t%+.2f %% (%+.2f..%+.2f); noise %.2f %%\t<= 2 %%\t%s" % (what, name, middle, min(s), max(s), floor,
              verdict(middle, 2, floor)))
    plain, again = column("plain", SHARE), column("again", SHARE)
    s = [v - (a + b) / 2 for v, a, b in zip(column(who, SHARE), plain, again)]
    print("the collector's CPU time for it\t%+.2f %% of a core (%+.2f..%+.2f), on %.2f %% without; %d samples of %.1f frames, %d lost\t<= 2 %%\t%s" %
          (st.median(s), min(s), max(s), st.median(plain + again), st.median(column(who, SAMPLES)), st.median(column(who, DEPTH)),
           sum(column(who, LOST)), verdict(st.median(s), 2, max(abs(a - b) for a, b in zip(plain, again)))))
s = [(a[COLLECTOR] - b[COLLECTOR]) / a[SAMPLES] for a, b in zip(rows("deep"), rows("deep.plain")) if a[SAMPLES]]
if s:
    print("the collector's CPU time for one sample, unwind tables\t%.1f us (%.1f..%.1f), %.0f frames; %d samples, %d lost\t\t" %
          (st.median(s), min(s), max(s), st.median(column("deep", DEPTH)), sum(column("deep", SAMPLES)), sum(column("deep", LOST))))
PY
