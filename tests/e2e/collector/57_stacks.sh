#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Sampled call stacks: functions that spend known shares of CPU time (how exactly, with TIMING), callers through code without frame pointers, threads
# and children, functions of Python, JSON and folded export, a run that has none, what is left behind.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder stacks
record() { # FILE OPTION... -- COMMAND...
    local file=$1
    shift
    expect 0 "$TACHO" run --no-peak --no-counters -o "$file" "$@"
}
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # by a process of its own, which is sampled like the others
record a.tacho --stacks --stacks-hz 500 -- "$BUILD/tests/targets/target_stacks" 800
state=$(sqlite3 -readonly a.tacho "SELECT value FROM run WHERE key = 'stacks'")
case $state in
"sampled: cpu-clock, "*) ;;
*) echo "the kernel does not sample here: $state" && exit 77 ;;
esac
"$TACHO" report --json a.tacho > a.json || fail "report"
python3 - a.json "$state" << 'PY' || fail "shares of functions"
import json, os, sys
s = json.load(open(sys.argv[1]))["stacks"]
f = {x["name"]: x for x in s["functions"]}
n = s["samples"]
timing = os.environ.get("TIMING")
assert n > 20, n
assert not timing or 400 < n < 1600, n  # 1.6 s of CPU time at 500 a second, on whatever machine
assert abs(s["cpu_s"] - n * s["period_us"] / 1e6) < 1e-6
inside = sum(f[k]["total_samples"] for k in ("stacks_three", "stacks_one", "stacks_thread", "stacks_child"))
assert inside > (0.9 if timing else 0.5) * n, (inside, n)
three, one = f["stacks_three"]["total_samples"], f["stacks_one"]["total_samples"]
share = three / (three + one)
sd = (0.75 * 0.25 / (three + one)) ** 0.5
assert share > 0.5, share
assert not timing or abs(share - 0.75) < 4 * sd + 0.01, share
for k in ("stacks_thread", "stacks_child"):
    assert f[k]["total_samples"] > 0, (k, f[k], three + one)
    assert not timing or abs(f[k]["total_samples"] / (three + one) - 0.5) < 0.15, (k, f[k], three + one)
if "tables" in sys.argv[2]:  # callers are found without frame pointers
    most = 0.97 if timing else 0.8
    assert f["stacks_outer"]["total_samples"] >= most * (three + one), (f["stacks_outer"], three + one)
    assert f["main"]["total_samples"] >= most * (three + one + f["stacks_child"]["total_samples"]), f["main"]
    assert f["stacks_outer"]["samples"] <= (0.02 if timing else 0.2) * n
print("note: %d samples, stacks_three %.1f %% of 75" % (n, 100 * share))
PY
"$TACHO" export --format stacks -o a.folded a.tacho || fail "export"
python3 - a.json a.folded << 'PY' || fail "folded stacks"
import json, sys
s = json.load(open(sys.argv[1]))["stacks"]
total = 0
three = 0
assert "@" not in open(sys.argv[2]).read(), "versions of symbols"
for line in open(sys.argv[2]):
    stack, ns = line.rsplit(" ", 1)
    total += int(ns)
    three += int(ns) if stack.endswith(";stacks_three") else 0
assert abs(total / 1e9 - s["cpu_s"]) < 1e-6, (total, s["cpu_s"])
f = {x["name"]: x for x in s["functions"]}
assert three == round(f["stacks_three"]["samples"] * s["period_us"] * 1e3), three
PY
[ "$(sqlite3 -readonly a.tacho "SELECT count(*) FROM metric WHERE name IN ('collector.user_time', 'collector.system_time') AND value >= 0")" = 2 ] ||
    fail "the collector's own CPU time"
# a child that executes nothing is called like its parent
grep 'stacks_child' a.folded | grep -vq '^target_stacks ([0-9]*);target_stacks ([0-9]*);' && fail "the child's name: $(grep -m 1 stacks_child a.folded)"
"$TACHO" report a.tacho --full > out.txt && grep -q 'Functions, by CPU time' out.txt || fail "no table of functions"
[ "$(sqlite3 -readonly a.tacho "SELECT count(DISTINCT process) FROM track WHERE kind = 'samples'")" = 2 ] || fail "processes of samples"
[ "$(sqlite3 -readonly a.tacho "SELECT count(*) FROM sample WHERE value IS NULL OR value NOT IN (SELECT id FROM stack)")" = 0 ] || fail "samples without a stack"

# the kernel's code in every process has a name, and callers; a stack that is deeper than what is copied of it says so
if [ "${state##*, }" = "unwind tables" ]; then
    cat > clock.c << 'C'
#include <time.h>
struct timespec now;
__attribute__((noinline)) static void stacks_asks(void)
{
    for (int i = 0; i < 1000; i++)
        clock_gettime(CLOCK_MONOTONIC, &now);
}
int main(void)
{
    while (clock() < CLOCKS_PER_SEC * 4 / 10)
        stacks_asks();
    return 0;
}
C
    # shellcheck disable=SC2086 # CC may be several words, as in "ccache gcc"
    ${CC:-gcc} -O1 -fomit-frame-pointer -fno-optimize-sibling-calls clock.c -o clock || fail "the program that asks for the time does not build"
    record c.tacho --stacks-hz 500 -- ./clock
    "$TACHO" export --format stacks c.tacho | grep -q 'main;stacks_asks;.*clock_gettime' || fail "no callers of the kernel's clock"
    record d.tacho --stacks-hz 500 -- "$BUILD/tests/targets/target_stacks" 200 deep
    "$TACHO" export --format stacks d.tacho > d.folded
    python3 - d.folded << 'PY' || fail "a stack that is too deep: $(head -c 300 d.folded)"
import sys
lines = [line.rsplit(" ", 1) for line in open(sys.argv[1])]
deep = [s.split(";")[2:] for s, ns in lines if "stacks_deep" in s]
assert deep and all(s[0] == "[truncated]" and "stacks_deep" in s[1] for s in deep), deep[:2]
PY
    # kernels made at run time, without tables, have callers: those of the engine's matrix library, where it makes some
    if "$TRAIN" gpt2-tiny --help > /dev/null 2>&1; then
        record t.tacho --stacks-hz 500 -- "$TRAIN" gpt2-tiny --steps 20
        "$TACHO" export --format stacks t.tacho > t.folded
        python3 - t.folded << 'PY' || fail "stacks of the engine: $(head -c 300 t.folded)"
import sys
lines = [line.rsplit(" ", 1) for line in open(sys.argv[1])]
stacks = [(s.split(";")[2:], int(ns)) for s, ns in lines]
# threads begin in the C library, which need not have that function's name
begins = ("_start", "__GI___clone3", "__clone3", "clone3", "clone", "[libc.so.6]")
whole = sum(ns for s, ns in stacks if s[0] in begins)
cut = sum(ns for s, ns in stacks if s[0] == "[truncated]")
total = sum(ns for s, ns in stacks)
made = [(s, ns) for s, ns in stacks if "jit_brgemm" in s[-1]]
# kernels for AVX2 and AVX-512 keep a tile on the stack that may be larger than what is copied of it, and that is said
tiles = sum(ns for s, ns in stacks if "jit_avx_gemm" in s[-1] or "jit_avx512_common_gemm" in s[-1])
assert whole >= 0.7 * (total - tiles), (whole, total, tiles)
assert whole + cut >= 0.9 * total, (whole, cut, total)
assert sum(len(s) > 2 for s, ns in made) >= 0.9 * len(made), made[:3]
print("note: %.0f %% of the engine's time has its callers, %.0f %% is cut; %d stacks end in kernels made at run time"
      % (100 * whole / total, 100 * cut / total, len(made)))
PY
    fi
fi

# none, and why: the kernel refuses; the target is too short
"$BUILD/tests/targets/target_without_perf" "$TACHO" run --stacks --no-peak -o refused.tacho -- "$BUILD/tests/targets/target_stacks" 50 \
    > "$work/out" 2> "$work/err"
code=$?
if [ $code != 77 ]; then
    [ $code = 0 ] || fail "exit code $code where perf_event_open is refused: $(cat "$work/err")"
    grep -q 'call stacks are not sampled: Permission denied' "$work/err" || fail "it does not say that there are no stacks: $(cat "$work/err")"
    expect 0 "$TACHO" report refused.tacho --full --width 200
    grep -q 'seccomp filter must allow perf_event_open' "$work/out" || fail "the report cuts what to do about missing stacks"
    grep -q LOST_EVENTS "$work/out" && fail "stacks that were not sampled are told as lost events"
    expect 3 "$TACHO" export --format stacks refused.tacho
    grep -q 'not sampled: Permission denied' "$work/err" || fail "the export does not say why: $(cat "$work/err")"
fi
record short.tacho --unwind tables -- true
[ "$(sqlite3 -readonly short.tacho 'SELECT count(*) FROM sample')" = 0 ] || echo "note: even true was sampled"
[ "$(sqlite3 -readonly short.tacho "SELECT count(*) FROM run WHERE key = 'stacks'")" = 1 ] || fail "--unwind does not switch --stacks on"
[ "$(sqlite3 -readonly short.tacho 'SELECT count(*) FROM sample')" != 0 ] || {
    expect 3 "$TACHO" export --format stacks short.tacho
    grep -q 'too little CPU time' "$work/err" || fail "no samples of a short program: $(cat "$work/err")"
}

# a map that is not ours to remove
cat > own_map.sh << 'SH'
echo "1000 10 Lfoo;bar" > "/tmp/perf-$$.map"
echo $$ > pid
i=0
while [ $i -lt 100000 ]; do i=$((i + 1)); done
SH
record m.tacho --stacks -- sh own_map.sh
own=/tmp/perf-$(cat pid).map
[ -e "$own" ] || fail "a map of the target's own was removed"
rm -f "$own"

# by frame pointers the sampled functions are the same, callers may be missing
record f.tacho --stacks-hz 500 --unwind frames -- "$BUILD/tests/targets/target_stacks" 400
"$TACHO" report --json f.tacho > f.json && python3 -c '
import json
f = {x["name"]: x for x in json.load(open("f.json"))["stacks"]["functions"]}
assert f["stacks_three"]["samples"] > f["stacks_one"]["samples"] > 0, f' || fail "frame pointers"

# none: said with the fix, exported as an error that leaves no file
record n.tacho -- "$BUILD/tests/targets/target_stacks" 10
"$TACHO" report --json n.tacho | grep -q '"/stacks/samples": *"not asked for: tacho run --stacks"' || fail "no reason for no stacks"
expect 3 "$TACHO" export --format stacks -o none.folded n.tacho
grep -q 'hint: record with: tacho run --stacks' "$work/err" && [ ! -e none.folded ] || fail "export without stacks: $(cat "$work/err")"

# Python names its functions from 3.12 on
for python in "${PYTHON312:-python3.12}" python3.13 python3; do
    "$python" -c 'import sys; sys.exit(not (sys.version_info >= (3, 12) and hasattr(sys, "activate_stack_trampoline")))' 2> /dev/null || continue
    cat > busy.py << 'PY'
import time
def stacks_inner(ms):
    until = time.process_time() + ms / 1e3
    n = 0
    while time.process_time() < until:
        for i in range(1000):
            n += i * i
def stacks_outer():
    for i in range(10):
        stacks_inner(60)
stacks_outer()
PY
    record p.tacho --stacks -- "$python" busy.py
    "$TACHO" report --json p.tacho > p.json
    python3 - "$state" << 'PY' || fail "functions of Python"
import json, sys
f = {x["name"].split(":/")[0].rsplit(":busy.py", 1)[0]: x for x in json.load(open("p.json"))["stacks"]["functions"]}
if "tables" in sys.argv[1]:
    assert f["py::stacks_inner"]["total_pct"] > 50, sorted(f)
    assert f["py::stacks_outer"]["total_pct"] >= 0.9 * f["py::stacks_inner"]["total_pct"], f["py::stacks_outer"]
PY
    # a stack of Python that is deeper than what is copied of it says so; what the user set stays
    if [ "${state##*, }" = "unwind tables" ]; then
        printf '%s\n' 'import time' 'def stacks_deep(n):' '    until = time.process_time() + 0.3' '    if n: return stacks_deep(n - 1)' \
            '    while time.process_time() < until: sum(range(1000))' 'stacks_deep(500)' > deep.py
        record q.tacho --stacks -- "$python" deep.py
        "$TACHO" export --format stacks q.tacho | grep stacks_deep | python3 -c '
import sys
lines = [line.split(";") for line in sys.stdin]
assert lines and all(s[2] == "[truncated]" for s in lines), [s[2:4] for s in lines if s[2] != "[truncated]"][:3]' ||
            fail "a deep stack of Python is not marked as cut"
        PYTHONPERFSUPPORT=0 "$TACHO" run --no-peak -o r.tacho --stacks -- "$python" busy.py > "$work/out" 2>&1 || fail "PYTHONPERFSUPPORT=0"
        "$TACHO" export --format stacks r.tacho | grep -q 'py::' && fail "PYTHONPERFSUPPORT=0 is overruled"
    fi
    pid=$(sqlite3 -readonly p.tacho "SELECT min(pid) FROM process")
    [ ! -e "/tmp/perf-$pid.map" ] || fail "the map of Python's functions is left behind"
    echo "note: $("$python" --version) names its functions"
    break
done
echo "note: $state"
exit 0
