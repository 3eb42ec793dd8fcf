#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# wide: yes
# tacho diff: runs of the engine (with TIMING: that more layers are slower), one whose steps were made longer, mistakes, and real traces: the 0- and the 4-worker ResNet, a trace and itself, halves of one
# trace, a trace in which one operator was made slower.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
traces=${TACHO_TRACES:-$SRC/../shared/traces}
[ -d "$traces" ] && traces=$(cd "$traces" && pwd)
command -v sqlite3 > /dev/null || { echo "needs the program sqlite3"; exit 77; }
work_folder

# expect CODE ARG...: tacho diff ARG...; output in out and err
expect() {
    local want=$1 rc
    shift
    "$TACHO" diff "$@" > out 2> err < /dev/null
    rc=$?
    [ $rc = "$want" ] || { cat out err; fail "exit code $rc instead of $want: tacho diff $*"; }
}
says() {
    tr '\n' ' ' < out | tr -s ' ' | grep -qF -- "$1" || { cat out; fail "the output does not say '$1'"; }
}
silent_about() {
    tr '\n' ' ' < out | tr -s ' ' | grep -qF -- "$1" && { cat out; fail "the output says '$1'"; }
}
complains() {
    grep -qF -- "$1" err || { cat err; fail "no message '$1'"; }
    [ -s out ] && fail "something on stdout beside an error"
}

# ---- runs of the engine ------------------------------------------------------------------------------------------------------
record() { # NAME ARG...
    local name=$1
    shift
    rm -f "$name.tacho"
    "$TACHO" run -o "$name.tacho" --no-peak --overhead 0 -- "$TRAIN" gpt2-tiny --channels 32 --heads 4 --data "$data" --log-every 0 "$@" > log 2>&1 ||
        { cat log; fail "the run $name failed"; }
}
export OMP_NUM_THREADS=1 # on a busy machine, threads that wait for each other make one step ten times the next
record one --steps 24 --layers 1 --batch 2 --seq 32
record two --steps 30 --layers 1 --batch 2 --seq 32
record deep --steps 24 --layers 20 --batch 2 --seq 32
record wide --steps 24 --layers 1 --batch 8 --seq 32

expect 0 one.tacho one.tacho
says "no difference"
expect 0 one.tacho two.tacho # other numbers of steps compare
says "counted steps"
expect 0 one.tacho deep.tacho
says "compute"
if [ -n "${TIMING:-}" ]; then # twenty times the layers are slower, whatever else the machine does
    expect 0 one.tacho two.tacho --fail-above 400% --assume-run-sd 5%
    expect 0 one.tacho deep.tacho
    says "slower"
    expect 1 one.tacho deep.tacho --fail-above 3% --assume-run-sd 5%
    says "FAILED"
    expect 1 one.tacho deep.tacho --fail-above "3 %" --assume-run-sd 5% --json -o diff.json
    expect 0 deep.tacho one.tacho --fail-above 3% --assume-run-sd 5% # faster is no failure
    exit 0                                        # the rest does not depend on the machine
fi
# the same run with 5 s more at the end of each step: much more than its steps differ by, on a busy machine too
cp one.tacho slow.tacho
sqlite3 slow.tacho "CREATE TEMP TABLE n AS SELECT rowid AS r, start AS t, row_number() OVER (ORDER BY start) - 1 AS k FROM step;
    UPDATE slice SET start = start + 5000000000 * max(0, (SELECT count(*) FROM n WHERE t <= slice.start) - 1);
    UPDATE step SET start = start + 5000000000 * k, \"end\" = \"end\" + 5000000000 * (k + 1) FROM n WHERE r = step.rowid" || fail "no slower copy"
expect 0 one.tacho slow.tacho
says "slower"
# one run a side does not say how much runs differ: undecided, unless that is given
expect 6 one.tacho slow.tacho --fail-above 3%
says "UNDECIDED"
expect 6 --fail-above 3% one.tacho two.tacho one.tacho -- slow.tacho slow.tacho slow.tacho
says "so few runs cannot show that it is slower"
expect 0 --fail-above 3% slow.tacho slow.tacho slow.tacho -- one.tacho two.tacho one.tacho
says "passed: the step may be up to"
expect 6 --fail-above 3% slow.tacho slow.tacho -- one.tacho two.tacho
says "it looks faster"
says "about 3 runs a side would show it"
expect 1 --fail-above 3% one.tacho one.tacho one.tacho one.tacho -- slow.tacho slow.tacho slow.tacho slow.tacho
says "4 and 4 runs"
expect 1 one.tacho slow.tacho --fail-above 3% --assume-run-sd 2%
says "FAILED"
says "smallest detectable change"
expect 1 one.tacho slow.tacho --fail-above "3 %" --assume-run-sd 2 --json -o diff.json
[ -s diff.json ] || fail "a failed limit must still write the file"
grep -q '"schema": "tacho-diff/1"' diff.json || fail "no schema"
grep -q '"failed": true' diff.json || fail "the JSON does not say that the limit failed"
expect 0 slow.tacho one.tacho --fail-above 3% --assume-run-sd 2% # faster is no failure
expect 0 one.tacho wide.tacho
says "64 and 256 tokens"

# ---- mistakes ----------------------------------------------------------------------------------------------------------------
expect 2
complains "the two runs"
expect 2 one.tacho
complains "the two runs"
expect 2 one.tacho two.tacho deep.tacho
expect 2 one.tacho two.tacho --fail-above much
complains "not a percentage"
expect 2 one.tacho two.tacho --fail-above -1
expect 2 one.tacho two.tacho --fail-above 0x3
expect 2 one.tacho two.tacho --fail-above nan
"$TACHO" diff one.tacho absent.tacho > out 2> err && fail "a missing run must be an error"
complains "absent.tacho"
echo "no run at all" > text.tacho
"$TACHO" diff one.tacho text.tacho > out 2> err
[ $? = 3 ] || { cat err; fail "a file of text is not bad input"; }
complains "text.tacho"
"$TACHO" diff text.tacho one.tacho -o half.txt > out 2> err && fail "a text file as baseline must be an error"
[ -e half.txt ] && fail "an output was left although there was nothing to write"
"$TACHO" diff --help > out || fail "no help"
says "BASELINE CANDIDATE"

# ---- real traces --------------------------------------------------------------------------------------------------------------
[ -d "$traces" ] || { echo "needs the folder of real traces: $traces (TACHO_TRACES); runs of the engine passed"; exit 77; }
imported() { # FILE...: each once, as NAME.tacho here; a diff of traces would import them each time
    local trace name
    for trace in "$@"; do
        name=${trace##*/}
        "$TACHO" import "$trace" -o "${name%%.*}.tacho" > log 2>&1 || { cat log; fail "import of $trace"; }
    done
}
zero=kineto_tb_resnet50_num_workers_0_steps16-21_rank0
four=kineto_tb_resnet50_num_workers_4_steps16-21_rank0
expect 0 "$traces/$four.json.gz" "$traces/$zero.json.gz"
says "slower"
says "data wait +"
says "a step (loader: enumerate(DataLoader))"
says "not enough steps"
imported "$traces"/{$zero,$four,hta_trace_diff_test_rank1,tracelens_b200_eager_rank0}.json.gz
expect 0 $zero.tacho $four.tacho
says "less time"
says "data wait -"
says "(loader: enumerate(DataLoader))"
expect 6 $four.tacho $zero.tacho --fail-above 3% # four steps each: 25 % longer, and undecided
says "UNDECIDED"
for t in $zero.tacho hta_trace_diff_test_rank1.tacho tracelens_b200_eager_rank0.tacho; do
    expect 0 "$t" "$t"
    says "no difference"
done
expect 0 $four.tacho tracelens_b200_eager_rank0.tacho
says "candidate has no steps"

command -v python3 > /dev/null || { echo "needs python3 for cutting traces; the rest passed"; exit 77; }
cat > cut.py << 'END'
# Six times four steps of a real trace, one after the other; times and ids of each copy are its own: same.json, its first and its
# second half. In slower.json SLOW us are put into each Optimizer.step: what is open there gets longer, what comes later begins later.
import bisect, gc, gzip, itertools, json, sys
gc.disable()  # all objects live to the end: looking for others takes most of the time
source, slow = sys.argv[1], int(sys.argv[2])
with gzip.open(source) as f:
    trace = json.load(f, strict=False)
spans = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e["cat"] != "Trace"]
start = {e["name"].split("#")[1]: e["ts"] for e in spans if e["name"].startswith("ProfilerStep#")}
t0, t1 = start["17"], start["21"]
window = sorted((e for e in spans if t0 <= e["ts"] < t1), key=lambda e: e["ts"])
for e in window:
    args = e.get("args", {})
    e["args"] = args if "stream" in args else {k: args[k] for k in ("external id", "External id", "correlation") if k in args}
marks = sorted(e["ts"] + 1 for e in window if e["name"].startswith("Optimizer.step#"))
for e in window:  # marks before it, before its end
    e["marks"] = bisect.bisect_right(marks, e["ts"]), bisect.bisect_left(marks, e["ts"] + e["dur"])
def repeated(slow):
    copies, shift = [], 0
    for copy in range(6):
        # what is put in: SLOW, and up to 0.9 ms that are another number in each step
        delay = [slow + (copy * len(marks) + k) * 7919 % 900 for k in range(len(marks))]
        before, out = [0, *itertools.accumulate(delay)], []
        step = copy * sum(e["name"].startswith("ProfilerStep#") for e in window)
        for e in window:
            x = dict(e, args=dict(e["args"]))
            first, last = x.pop("marks")
            x["ts"] += shift + before[first]
            if "stream" not in x["args"]:
                x["dur"] += before[max(first, last)] - before[first]
            for key in ("correlation", "external id", "External id"):
                if key in x["args"]:
                    x["args"][key] += copy * 10**7
            if e["name"].startswith("ProfilerStep#"):
                x["name"], step = f"ProfilerStep#{step}", step + 1
            out.append(x)
        copies.append(json.dumps(out)[1:-1]) # json.dump encodes in Python, which takes ten times as long
        shift += t1 - t0 + sum(delay)
    return copies
def write(path, copies):
    with open(path, "w") as f:
        f.write(json.dumps({"schemaVersion": 1, "deviceProperties": trace["deviceProperties"], "traceEvents": []})[:-2])
        f.write(", ".join(copies) + "]}")
same = repeated(0)
write("same.json", same)
write("same_first.json", same[:3])
write("same_second.json", same[3:])
write("slower.json", repeated(slow))
END
python3 cut.py "$traces/$four.json.gz" 8000 || fail "the traces could not be cut"
imported same.json same_first.json same_second.json slower.json

expect 0 same_first.tacho same_second.tacho --fail-above 3% --assume-run-sd 0.5%
silent_about "not enough steps" # 10 steps each: something can be said, and it is
says "no significant difference"
expect 0 same_first.tacho same_second.tacho --json
grep -q '"differs": false' out || fail "halves of one trace differ significantly"
grep -q '"significant": true' out && fail "something in the halves of one trace is called significant"

expect 1 same.tacho slower.tacho --fail-above 3% --assume-run-sd 0.5%
says "host time +8"
says "Optimizer.step#SGD.step"
says "FAILED"
expect 0 same.tacho slower.tacho --fail-above 20% --assume-run-sd 0.5% --json
python3 - << 'END' || fail "the slower operator is not what the JSON says"
import json
d = json.load(open("out"))
assert d["schema"] == "tacho-diff/1" and d["slower"] and d["unit"] == "step", d["verdict"]
op = {r["name"]: r for r in d["operators"]}["Optimizer.step#SGD.step"]
assert op["significant"] and abs(op["delta_ms"] - 8) < 0.1, op
assert abs(d["step"]["delta_ms"] - 8) < 0.8 and d["step"]["significant"], d["step"]
assert {r["name"] for r in d["classes"]} >= {"compute", "input", "host"}
others = [r["name"] for r in d["kernels"] + d["operators"] if r["significant"] and abs(r["delta_ms"]) > 0.5]
assert others == ["Optimizer.step#SGD.step"], others
for pointer in d["absent"]:  # every null has its reason
    node = d
    for part in pointer.split("/")[1:]:
        node = node[int(part)] if isinstance(node, list) else node[part]
    assert node is None, pointer
END
exit 0
