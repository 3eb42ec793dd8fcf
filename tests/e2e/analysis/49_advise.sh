#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# tacho advise: what it says when it cannot; the replay of engine runs with one rank and two; with TIMING, it predicts even steps from
# odd ones within 2 %;
# a slow loader in line: what it would take with two workers, then the run with two; 1,000 random nodes of each run and of a few shared
# traces (of every one in long_advise.sh); the ResNet-50 pair.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
command -v python3 > /dev/null || { echo "needs python3 to read the advice"; exit 77; }
work_folder
export OMP_NUM_THREADS=1 XDG_CACHE_HOME=$PWD/cache
nodes=${TACHO%/*}/tests/unit/analyzers/replay/test_an_replay identities=${TACHO%/*}/tests/unit/analyzers/replay/test_an_teams
# get FILE EXPRESSION: of the JSON document d
get() { python3 -c "import json, sys; d = json.load(open(sys.argv[1])); print($2)" "$1"; }
# within LEAST VALUE: with TIMING only
within() { [ -z "${TIMING:-}" ] || python3 -c "import sys; sys.exit(not float(sys.argv[1]) <= float(sys.argv[2]))" "$1" "$2"; }

# ---- one rank
small=(--layers 2 --channels 64 --heads 2 --batch 2 --seq 64)
steps=(--steps 20) ranks=(--layers 1 --steps 16)
[ -z "${TIMING:-}" ] || steps=(--steps 60) ranks=(--steps 40)
one_rank() { # other programs that take the core for a while make one half of the steps longer than the other
    engine one.tacho "$TRAIN" gpt2-tiny "${steps[@]}" "${small[@]}"
    "$TACHO" advise one.tacho --json > one.json || fail "advise"
    error=$(get one.json 'd["replay_error_pct"]')
    echo "one rank: error $error %, as recorded $(get one.json 'd["base_error_pct"]') %, think $(get one.json 'd["think_pct"]') %"
    within "$error" 2
}
one_rank || fail "one rank: the replay misses the even steps by $error %"
get one.json 'd["schema"]' | grep -qx tacho-advice/1 || fail "schema"
[ "$(get one.json 'd["replay_error_pct"] > 20 if d["sensitivity"] is None else 99 <= sum(r["path_pct"] for r in d["sensitivity"]) <= 101')" = True ] || fail "rows of one thread do not sum to the step"
"$TACHO" advise one.tacho > text || fail "advise as text"
grep -q 'odd steps predict' text || fail "no error in the text: $(cat text)"

# ---- what people type wrong: exit code 2, what is wrong and what to do, nothing on stdout
refuse() { # EDITS WHAT HINT
    "$TACHO" advise one.tacho --what-if "$1" > out 2> err
    [ $? = 2 ] && [ ! -s out ] && grep -q "^tacho: --what-if: .*$2" err && grep -q "^hint: .*$3" err || fail "--what-if '$1': $(cat out err)"
}
refuse comm "invalid edit 'comm'" NAME=VALUE
refuse launhc=0 "'launhc' cannot be changed" 'did you mean launch'
refuse comm=fast "invalid share 'fast'" 0.5x
refuse loader.workers=0 "'0' is not a number of workers" loader.workers=4
refuse op:nonesuch=0.5x op:nonesuch op:matmul
refuse cores=0 "'0' is not a number of cores" cores=8
refuse others=-1 "'-1' is not a number of cores" others=0
refuse link=slow "invalid speed 'slow'" link=2x
refuse loader.prefetch=-1 'not a number of batches' loader.prefetch=8
"$TACHO" advise > out 2> err --what-if '' one.tacho
[ $? = 2 ] || fail "an empty list: $(cat err)"

# ---- a loader in line that sleeps; what two workers would do; the run with two. A busy machine sleeps longer in one run than in the other:
# what batches took longer is allowed beside the interval
pair() {
    engine line.tacho "$TRAIN" gpt2-tiny "${small[@]}" "${steps[@]}" --workers 0 --slow decode=0.020
    engine two.tacho "$TRAIN" gpt2-tiny "${small[@]}" "${steps[@]}" --workers 2 --slow decode=0.020
    "$TACHO" advise line.tacho --what-if loader.workers=2 --json > line.json || fail "what-if"
    "$TACHO" report line.tacho --json > line_report.json || fail "report"
    "$TACHO" report two.tacho --json > two.json || fail "report"
    python3 - << 'END'
import json, os, sys
advice, line, two = (json.load(open(f)) for f in ("line.json", "line_report.json", "two.json"))
w = advice["what_if"][0]
low, high, real = w["step_low_ms"], w["step_high_ms"], two["advice"]["step_ms"]
sleeps = two["dataloader"]["batch_ms"] / line["dataloader"]["batch_ms"]
print(f"in line {advice['step_ms']:.2f} ms; with two workers predicted {w['step_ms']:.2f} [{low:.2f}, {high:.2f}], measured {real:.2f}; batches took {sleeps:.3f} of the time")
if not os.environ.get("TIMING"):
    sys.exit(not low <= w["step_ms"] <= high)
sys.exit(not low * min(1, sleeps) * 0.98 <= real <= high * max(1, sleeps) * 1.02)
END
}
pair || fail "the step with two workers is not in the interval"
f=$(python3 -c 'import json; f = json.load(open("line_report.json"))["findings"][0]; print(f["id"], f["what_if"], f["gain_pct"]["ceiling"], f["gain_pct"]["low"] <= f["gain_pct"]["expected"] <= f["gain_pct"]["high"])')
case $f in "INPUT_STALL loader.workers="*" False True") ;; *) fail "the finding's gain is not the replay's: $f" ;; esac

# the thread of these steps sleeps for most of them, by the kernel's account
python3 - << 'END' || fail "what the thread of the steps ran"
import sqlite3
rows = sqlite3.connect("line.tacho").execute(
    "SELECT c.time, c.value FROM counter c JOIN track t ON t.id = c.track WHERE t.name = 'thread_time' AND t.unit = 'ns' ORDER BY c.time").fetchall()
half = rows[len(rows) // 4:]  # without the start of the program
ran = (half[-1][1] - half[0][1]) / (half[-1][0] - half[0][0])
print(f"{len(rows)} samples: the thread ran for {100 * ran:.0f} % of the time")
assert 0 < ran < 0.5, rows
END

# ---- what the run has already gains exactly nothing; a deeper queue is something else
engine queue.tacho "$TRAIN" gpt2-tiny "${small[@]}" --steps 30 --workers 3 --prefetch=1 --slow decode=0.020
"$TACHO" advise queue.tacho --json > queue.json || fail "advise"
cores=$(get queue.json 'd["cores"]["usable"] or 0') others=$(get queue.json 'd["cores"]["wanted_by_others"] or 0')
for edit in loader.workers=3 loader.prefetch=1 loader.workers=3,loader.prefetch=1 compute=1x loader=100% \
    "cores=${cores%.*}" "others=$(printf %.2g "$others")"; do
    "$TACHO" advise queue.tacho --what-if "$edit" --json > same.json 2> err || fail "$edit: $(cat err)"
    same=$(get same.json 'all(w["gain_pct"][k] in (0, None) for w in d["what_if"] for k in ("low", "expected", "high"))')
    [ "$same" = True ] || fail "$edit changes nothing and is said to: $(get same.json 'd["what_if"]')"
done
"$TACHO" advise queue.tacho --what-if loader.prefetch=6 --json > deeper.json || fail "a deeper queue"
[ "$(get deeper.json 'bool(d["what_if"][0]["none"]) or d["what_if"][0]["gain_pct"]["expected"] > 5')" = True ] ||
    fail "three workers that may make only one batch ahead wait for each other: $(get deeper.json 'd["what_if"]')"

# ---- the command sets the affinity itself: the run has the cores that its steps may use, and two would be more than that
if command -v taskset > /dev/null && [ "$(env -u OMP_NUM_THREADS nproc)" -ge 2 ]; then
    export OMP_NUM_THREADS=2
    engine bound.tacho taskset -c 1 "$TRAIN" gpt2-tiny "${small[@]}" --steps 300 # a run of 40 ms ends before its threads are looked at
    export OMP_NUM_THREADS=1
    "$TACHO" advise bound.tacho --what-if cores=1 --json > bound.json || fail "advise of a bound run"
    [ "$(get bound.json 'd["cores"]["usable"] == 1 and d["what_if"][0]["gain_pct"]["high"] == 0')" = True ] ||
        fail "taskset -c 1 in the command: $(get bound.json 'd["cores"], d["what_if"]')"
fi

# ---- two ranks
if command -v mpirun > /dev/null && "$TRAIN" --help all | grep -q -- --slow-rank; then
    mpi_environment
    two_ranks() { # where more runs than there are cores, steps differ widely: the medians of 20 odd and 20 even ones as well
        engine ranks.tacho mpirun -np 2 --bind-to none --oversubscribe "$TRAIN" gpt2-tiny --seq 64 "${ranks[@]}"
        "$TACHO" advise ranks.tacho --what-if peers=0,comm=0.5x --json > ranks.json || fail "advise of two ranks"
        error=$(get ranks.json 'd["replay_error_pct"]')
        echo "two ranks: error $error %, as recorded $(get ranks.json 'd["base_error_pct"]') %"
        within "$error" 2
    }
    two_ranks || fail "two ranks: the replay misses the even steps by $error %"
    [ "$(get ranks.json 'd["what_if"][0]["gain_pct"]["ceiling"], d["what_if"][1]["gain_pct"]["ceiling"]')" = "True False" ] ||
        fail "peers=0 is a ceiling, comm=0.5x with all ranks in the file is not"
fi

[ -z "${TIMING:-}" ] || exit 0 # the rest does not depend on the machine
# ---- properties of 1,000 random nodes: of these runs, and of every shared trace that has steps
for run in one line two ranks; do
    [ ! -f $run.tacho ] || "$nodes" $run.tacho > out 2>&1 || fail "$run.tacho: $(tail -n 5 out)"
done
# ---- what changes nothing gains nothing, for every key of an edit
for run in line bound ranks ${EVERY_TRACE:+one two queue}; do
    [ ! -f "$run.tacho" ] || "$identities" "$run.tacho" > out 2>&1 || fail "$run.tacho: $(tail -n 5 out)"
done
traces=${TACHO_TRACES:-$SRC/../shared/traces}
[ -d "$traces" ] || { echo "no shared traces: that part was not run"; exit 0; }
few='alexnet|minitoy|2ranks_rank0|_num_workers_4_|b200|nsys_h100' enough=3
[ -z "${EVERY_TRACE:-}" ] || few=. enough=8
replayed=0
for trace in "$traces"/*.gz; do
    [[ ${trace##*/} =~ $few ]] || continue
    rm -f trace.tacho
    "$TACHO" import "$trace" -o trace.tacho > log 2>&1 || fail "import of $trace: $(cat log)"
    "$nodes" trace.tacho > out 2>&1 || fail "$trace: $(tail -n 5 out)"
    grep -q ' frames, ' out && replayed=$((replayed + 1))
    "$TACHO" advise trace.tacho --json > trace.json 2> err
    case $? in
        0) echo "${trace##*/}: error $(get trace.json 'd["replay_error_pct"]') %, as recorded $(get trace.json 'd["base_error_pct"]') %" ;;
        4) grep -q 'nothing to replay' err || fail "$trace: $(cat err)" ;;
        *) fail "$trace: $(cat err)" ;;
    esac
done
[ "$replayed" -ge $enough ] || fail "only $replayed traces could be replayed"

# ---- less work never makes a step longer, of no kind, in no trace: a whole class away at a time
"$TACHO" advise "$traces/tracelens_mi300_resnet_act_checkpoint_rank0.json.gz" --what-if comm=0,compute=0,launch=0,think=0,framework=0,dispatch=0 \
    --json > less.json || fail "advise of the last step's end"
python3 - << 'END' || fail "work taken away makes the step longer"
import json, sys
d = json.load(open("less.json"))
gains = {w["edit"]: w["gain_pct"]["high"] for w in d["what_if"]}
print("at most, in per cent:", {k: round(g) for k, g in gains.items()})
# its last step ends with the device's last op, whichever that is then; 62 % of a step is exposed communication
sys.exit(not (min(gains.values()) >= 0 and gains["comm=0"] > 100))
END

# ---- the ResNet-50 pair: from the run without workers, the device step of that with four
pair=$traces/kineto_tb_resnet50_num_workers
"$TACHO" advise "${pair}_0_steps16-21_rank0.json.gz" --what-if loader.workers=4 --json > a.json || fail "advise of the pair"
"$TACHO" report "${pair}_4_steps16-21_rank0.json.gz" --json > b.json || fail "report of the pair"
python3 - << 'END' || fail "the pair: not in the interval, or wider than 10 %"
import json, sys
w, real = json.load(open("a.json"))["what_if"][0], json.load(open("b.json"))["steps"]["median_ms"]
low, high = w["step_low_ms"], w["step_high_ms"]
width = 100 * (high - low) / w["step_ms"]
print(f"pair: predicted {w['step_ms']:.1f} [{low:.1f}, {high:.1f}] ms, {width:.1f} % wide; measured {real:.1f} ms")
sys.exit(not (low <= real <= high and width <= 10))
END
