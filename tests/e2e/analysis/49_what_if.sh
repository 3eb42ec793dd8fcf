#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# What edits predict, held against runs with the real change: a stage of the loader away, nearly all of a step away, a slow rank
# away, a link many times as fast, one core instead of two, larger micro-batches.
#
# A machine that others use makes the same program faster and slower by tens of per cent, which is no fault of a prediction. So
# both configurations run in turns (A B A B ...), and each try looks at two of each that follow each other. It counts only where the two runs of each agree, and where the change is
# larger than what differs: the interval moved to where it stands without the edit must miss the run with the change. A miss counts
# only where other programs left the cores alone, as far as the runs say. Two tries that hold are enough; three that miss are a
# failure. Where neither comes of eight runs of each, or the first 20 seconds bring no miss, the script says that nothing was decided.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
command -v python3 > /dev/null || { echo "needs python3 to read the advice"; exit 77; }
work_folder
export OMP_NUM_THREADS=1 XDG_CACHE_HOME=$PWD/cache
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks=()
command -v mpirun > /dev/null && "$TRAIN" --help all | grep -q -- --slow-rank && ranks=(mpirun -np 2 --bind-to none --oversubscribe)
small=(gpt2-tiny --layers 2 --channels 64 --heads 2 --batch 2 --seq 64)
cat > compare.py << 'END'
# compare.py WHAT VARIES OTHERS: a1.json, a2.json (with the edit) and b1.json, b2.json (with the real change). 0: the interval reaches
# what was measured; 1: it does not; 3: the try does not count: two runs of one configuration differ by more than VARIES per cent, or
# the change is too small to be seen, or it does not, but other programs wanted more than OTHERS cores
import json, sys
what, varies, most = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
a1, a2, b1, b2 = runs = [json.load(open(f"{f}.json")) for f in ("a1", "a2", "b1", "b2")]
edits = [d["together"] or d["what_if"][0] for d in (a1, a2)]
for d, w in zip((a1, a2), edits):
    if w["none"] or w["step_high_ms"] is None:
        sys.exit(f"{what}: no interval: {w['none'] or w['ceiling_because']}")
    if not w["step_low_ms"] <= w["step_ms"] <= w["step_high_ms"]:
        sys.exit("what is expected lies outside of its interval")
    if d["cores"]["short_pct"] is not None and d["cores"]["short_pct"] > 5 and not w["takes_for_granted"]:
        sys.exit("cores were short, and the interval does not say what it takes for granted")
low, expected, high = [sum(w[k] for w in edits) / 2 for k in ("step_low_ms", "step_ms", "step_high_ms")]
before, real = (a1["step_ms"] + a2["step_ms"]) / 2, sorted((b1["step_ms"], b2["step_ms"]))
spread = [100 * (max(x, y) / min(x, y) - 1) for x, y in ((a1["step_ms"], a2["step_ms"]), (b1["step_ms"], b2["step_ms"]))]
others = [d["cores"]["wanted_by_others"] for d in runs]
print(f"{what}: {before:.2f} ms, predicted {expected:.2f} [{low:.2f}, {high:.2f}], measured {real[0]:.2f} and {real[1]:.2f}; the same twice differs"
      f" by {spread[0]:.1f} and {spread[1]:.1f} %", end="")
def reaches(low, high):
    return low <= real[1] and high >= real[0]
def no_count(why):
    print(f": does not count: {why}")
    sys.exit(3)
if max(spread) > varies:
    no_count(f"more than {varies:.0f} %")
if reaches(low * before / expected, high * before / expected):
    no_count("the change is no larger than the interval is wide")
held = reaches(low, high)
if not held and any(x is None or x > most for x in others):
    no_count("other programs wanted " + ", ".join("?" if x is None else f"{x:.1f}" for x in others) + " cores")
print("" if held else ": MISSED")
sys.exit(0 if held else 1)
END
# advise EDIT: of the runs with the edit; beside_others EDIT: with what other programs wanted in the runs with the change
advise() {
    local k
    for k in 1 2; do
        "$TACHO" advise b$k.tacho --json > b$k.json || fail "advise of the run with the change"
        "$TACHO" advise a$k.tacho --what-if "$1" --json > a$k.json || fail "advise --what-if $1"
    done
}
beside_others() {
    local k others
    advise "$1"
    for k in 1 2; do
        others=$(python3 -c 'import json, sys; x = json.load(open(sys.argv[1]))["cores"]["wanted_by_others"]; print("" if x is None else f",others={x:.3f}")' b$k.json)
        "$TACHO" advise a$k.tacho --what-if "$1$others" --json > a$k.json || fail "advise --what-if $1$others"
    done
}
# tries WHAT VARIES OTHERS NAME ADVISE EDIT: NAME_a and NAME_b make the runs; each try is the newest two of each
tries() {
    local held=0 missed=0 runs begun=$SECONDS
    for runs in 1 2 3 4 5 6 7 8; do
        [ $runs = 1 ] || { mv a2.tacho a1.tacho && mv b2.tacho b1.tacho; }
        "$4_a" a2.tacho
        "$4_b" b2.tacho
        [ $runs -gt 1 ] || continue
        "$5" "$6"
        [ $runs = 2 ] || echo "retry: $1 (run $runs of 8): $held held, $missed missed so far"
        python3 compare.py "$1" "$2" "$3"
        case $? in 0) held=$((held + 1)) ;; 3) ;; *) missed=$((missed + 1)) ;; esac
        [ $missed -lt 3 ] || fail "$1: the interval of $missed tries misses the real step, of $held it does not"
        [ $held -lt 2 ] || return 0
        [ $missed -gt 0 ] || [ $((SECONDS - begun)) -lt 20 ] || break
    done
    echo "$1: not decided: $held held, $missed missed; the machine's own variation was larger than what is looked at"
}

# ---- a stage of a loader in line: 70 of 150 ms go
stage_a() { engine "$1" "$TRAIN" "${small[@]}" --steps 10 --workers 0 --slow read=0.07 --slow decode=0.08; }
stage_b() { engine "$1" "$TRAIN" "${small[@]}" --steps 10 --workers 0 --slow decode=0.08; }
tries "a loader's stage" 5 1000 stage advise loader.read=0

# ---- nearly all of a step goes: what is left has never been seen without pauses
nearly_all_a() { engine "$1" "$TRAIN" "${small[@]}" --steps 60 --workers 0 --slow decode=0.011; }
nearly_all_b() { engine "$1" "$TRAIN" "${small[@]}" --steps 200 --workers 0; }
tries "nearly all of a step" 10 2 nearly_all advise loader.decode=0

# ---- one core instead of two
one_core_a() { OMP_NUM_THREADS=2 engine "$1" "$TRAIN" gpt2-tiny --steps 40 --workers 1; }
one_core_b() {
    on=(taskset -c 0)
    one_core_a "$1"
    on=(env)
}
if [ "$(env -u OMP_NUM_THREADS nproc)" = 2 ] && command -v taskset > /dev/null; then
    tries "one core" 5 0.15 one_core beside_others cores=1
else
    echo "one core: needs a machine of two and taskset"
fi

# ---- one micro-batch of eight samples in place of eight of one, by the efficiency curve of GEMMs
micro_a() { engine "$1" "$TRAIN" gpt2-tiny --steps 30 --batch 1 --accumulate 8 --seq 16; }
micro_b() { engine "$1" "$TRAIN" gpt2-tiny --steps 60 --batch 8 --seq 16; }
"$TACHO" calibrate --quick > calibrated || fail "no calibration: $(cat calibrated)"
tries "larger micro-batches" 5 0.15 micro advise micro=8x

[ ${#ranks[@]} -gt 0 ] || { echo "no mpirun: two ranks are not looked at"; exit 0; }

# ---- a rank that sleeps 60 ms beside a loader of 50
slow_rank_a() { engine "$1" "${ranks[@]}" "$TRAIN" "${small[@]}" --steps 12 --workers 0 --slow decode=0.05 --slow-rank 1=0.06; }
slow_rank_b() { engine "$1" "${ranks[@]}" "$TRAIN" "${small[@]}" --steps 12 --workers 0 --slow decode=0.05; }
tries "a slow rank" 5 2 slow_rank advise rank:1=peers

# ---- buckets sent once instead of 24 times, with cores that all threads share
link_a() { engine "$1" "${ranks[@]}" "$TRAIN" gpt2-tiny --steps 30 --slow-link 24; }
link_b() { engine "$1" "${ranks[@]}" "$TRAIN" gpt2-tiny --steps 30; }
tries "a faster link" 5 0.15 link beside_others comm=0.0416667x
exit 0
