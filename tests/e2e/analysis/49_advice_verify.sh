#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# timeout: 300
# `bench.py verify`: which draws can be run again, what is made of the answers of `tacho verify`, and whether its two lines, typed by
# hand, are judged by the files that they write. tacho and train are substitutes whose steps take a known time: 67_verify.sh is about
# the real ones.
# shellcheck disable=SC2154  # work: cli_common.sh
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
work_folder advice_verify
bottlenecks=$SRC/workloads/bottlenecks
export PYTHONDONTWRITEBYTECODE=1

# A run file is the command that made it. A step takes 20 ms with --workers 0 and 10 ms with more, and 20 ms of other recipes; a run with
# --eval-every has 5 ms more between steps. WRONG says what goes wrong.
mkdir bin
cat > bin/train << 'END'
#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" != --timers ] || echo '{"steps": [{"wall_ns": 20000000}, {"wall_ns": 20000000}], "threads": []}' > "$2"
    shift
done
END
cat > bin/tacho << 'END'
#!/bin/sh
echo "$*" >> "$CALLS"
has() { case " $command " in *" $1 "*) ;; *) return 1 ;; esac; }
step_ms() { if has --workers && ! has "--workers 0"; then echo 10; else echo 20; fi; }
print_plan() {
    unit=step ceiling=false
    ! has --eval-every || unit=run
    [ "$WRONG" != ceiling ] || ceiling=true
    changed=$(echo "$command" | sed 's/--workers 0/--workers 1/')
    echo "{\"finding\": \"INPUT_STALL\", \"setting\": \"--workers=1\", \"unit\": \"$unit\", \"outcome\": \"$1\", \"measured_pct\": $2,"
    echo "\"command_before\": \"tacho run -o before.tacho -- $command\", \"command_after\": \"tacho run -o after.tacho -- $changed\","
    echo "\"predicted_pct\": {\"low\": 90, \"expected\": 100, \"high\": 110, \"ceiling\": $ceiling}}"
}
case $1 in
run)
    while [ "$1" != -- ]; do
        [ "$1" != -o ] || file=$2
        shift
    done
    shift
    command="$*"
    [ "$WRONG" != after ] || [ "$(step_ms)" = 20 ] || exit 3
    echo "$command" > "$file"
    has train || "$@"
    ;;
report)
    command=$(cat "$2") between=0
    ! has --eval-every || between=200
    echo "{\"steps\": {\"mean_ms\": $(step_ms), \"count\": 40}, \"phases\": [{\"name\": \"evaluation\", \"exposed_ms\": $between}]}"
    ;;
verify)
    command=$(cat "$2") folder=
    { has --workers && [ "$WRONG" != nothing ]; } || exit 4
    [ "$WRONG" != verify ] || { echo "no such thing" >&2; exit 1; }
    for word in "$@"; do
        [ "$folder" != -o ] || mkdir "$word"
        folder=$word
        [ "$word" != --dry-run ] || { print_plan "cannot tell" '{}'; exit 0; }
    done
    print_plan held '{"low": 98, "expected": 101, "high": 104}'
    ;;
*)
    echo "unexpected: $*" >&2
    exit 1
    ;;
esac
END
chmod +x bin/tacho bin/train
export TACHO=$work/here/bin/tacho TRAIN=$work/here/bin/train CALLS=$work/calls CALIBRATE=0
: > "$CALLS"

# two draws of recipes that are run again as they are, and a third one whose finding and option have been seen by then
read -r first second others < <(PYTHONPATH=$bottlenecks python3 - << 'PY'
import draws, verify

for recipe in draws.recipes():
    outside = {"neighbour", "limits", "cold", "log"} & set(recipe)
    assert verify.can_run_again(recipe) == (bool(recipe["fixes"]) and not outside), recipe["name"]
drawn = [draws.draw(seed) for seed in range(1, 200)]
joined = [each for each in drawn if " + " in each["name"] and not (each["limits"] or {"log", "cold"} & set(each))]
assert len(joined) > 10 and all(map(verify.can_run_again, joined)), "two faults in one run are no reason against it"
limited = [each for each in drawn if each.get("limits") or {"log", "cold", "neighbour"} & set(each)]
assert len(limited) > 10 and not any(map(verify.can_run_again, limited))

def uses(each, *names):
    text = str(each)
    return not any(name in text for name in ("IMAGES", "TOKENIZER")) and set(names) <= set(each["base"][1]) and each.get("ranks", 1) == 1

again = [each for each in drawn if verify.can_run_again(each)]
loaders = [each["seed"] for each in again if uses(each, "--workers") and each["base"][1]["--workers"] == 0 and "--eval-every" not in each["base"][1]]
plain = [each["seed"] for each in again if uses(each) and "--workers" not in each["base"][1]]
print(plain[0], loaders[0], loaders[1], limited[0]["seed"])
PY
)
[ -n "$others" ] || fail "the draws"

# no finding of the first one has a change; the second one is measured, and its kind is not tried twice; a draw with limits is not run
verify() { timeout 100 "$bottlenecks/bench.py" verify store "$@" > out 2> err; }
read -r third limited <<< "$others"
verify "$first" "$second" "$third" "$limited" || fail "exit status $?: $(cat err)"
[ "$(grep -c '^| [0-9]' out)" = 1 ] || fail "rows: $(cat out)"
row=$(grep "^| $second " out) || fail "no row of $second: $(cat out)"
[[ $row == *"| INPUT_STALL | \`--workers=1\` | +100 [90, 110] | +101 [98, 104] | held | +100 |" ]] || fail "row: $row"
[ "$(grep -c '^run ' "$CALLS")" = 9 ] || fail "three recordings, and three pairs by hand: $(cat "$CALLS")"
[ "$(grep -c -- '--dry-run' "$CALLS")" = 3 ] || fail "three plans: $(cat "$CALLS")"
[ "$(grep -c '^verify .*--pairs 3' "$CALLS")" = 1 ] || fail "measured once: $(cat "$CALLS")"

# --count ends it: what comes after is not recorded
: > "$CALLS"
verify "$second" "$third" --count 1 || fail "--count: $(cat err)"
[ "$(grep -c -- '--dry-run' "$CALLS")" = 1 ] || fail "went on after the last one: $(cat "$CALLS")"

# a ceiling is printed as one; a line that fails when it is typed is the row's last cell; one draw that fails does not end the others
WRONG=ceiling verify "$second" || fail "ceiling: $(cat err)"
grep -q '| ≤ +110 |' out || fail "no ceiling: $(cat out)"
WRONG=after verify "$second" || fail "after: $(cat err)"
grep -q '| held | after: exit status 3 |$' out || fail "a line that fails: $(cat out)"
WRONG=verify verify "$second" "$third" || fail "an error of one draw ended all: $(cat err)"
[ "$(grep -c "^bench.py: [0-9]*: verify: exit status 1: no such thing" err)" = 2 ] || fail "no words of an error: $(cat err)"
WRONG=nothing verify "$second" || fail "nothing to change: $(cat err)"
{ ! grep -q '^| [0-9]' out && [ ! -s err ]; } || fail "a row of nothing: $(cat out err)"

# the gain by hand is the mean of logarithms of the pairs; between evaluations a run has time that no step has
PYTHONPATH=$bottlenecks python3 - << 'PY' || fail "by hand"
import json, os, verify

def gain(unit, *options):
    lines = [" ".join(["tacho run -o", side + ".tacho -- train --workers", workers, *options]) for side, workers in (("before", "0"), ("after", "2"))]
    plan = {"unit": unit, "command_before": lines[0], "command_after": lines[1]}
    env = os.environ | {"PATH": os.path.dirname(os.environ["TACHO"]) + os.pathsep + os.environ["PATH"]}
    told = verify.by_hand(plan, ".", env)
    assert not os.path.exists("before.tacho") and not os.path.exists("after.tacho")
    return told

assert abs(gain("step") - 100) < 1e-9
assert abs(gain("step", "--eval-every 2") - 100) < 1e-9, "of a step"
assert abs(gain("run", "--eval-every 2") - 100 * (25 / 15 - 1)) < 1e-9, "of the run"
plan = {"unit": "step", "command_before": "exit 7", "command_after": "true"}
assert verify.by_hand(plan, ".", os.environ) == "before: exit status 7"
row = {"seed": 1, "recipe": "a", "finding": "F", "setting": "--x=1", "hand": -3.2, "outcome": "held",
       "predicted_pct": {"low": -1.0, "expected": 2.0, "high": 3.0, "ceiling": False}, "measured_pct": {"low": 1.0, "expected": 2.0, "high": 3.0}}
assert verify.cells(row) == ["1", "a", "F", "`--x=1`", "+2 [-1, 3]", "+2 [1, 3]", "held", "-3"], verify.cells(row)
assert verify.kind_of({"finding": "F", "setting": "OMP_NUM_THREADS=2 --x"}) == ("F", "OMP_NUM_THREADS")
PY
exit 0
