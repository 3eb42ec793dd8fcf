#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Frames of Python from outside: the lines of a program by what its thread does, of a child as well, JSON and folded export; what
# is said without --stacks, without looks, without Python, and of a version whose frames are not known.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder python_frames
python3 -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 14))' || { echo "python3 is not 3.9 to 3.14" && exit 77; }
cat > program.py << 'PY'
import os, sys, time

def computes(until):
    n = 0
    while time.monotonic() < until:
        n += 1
    return n

def sleeps():
    time.sleep(0.3)

def nested(depth):
    return sleeps() if not depth else nested(depth - 1)

child = os.fork()
computes(time.monotonic() + 0.3)
nested(300)
if child:
    os.waitpid(child, 0)
PY
record() { # FILE OPTION... -- COMMAND...
    local file=$1
    shift
    expect 0 "$TACHO" run --no-peak --no-counters -o "$file" "$@"
}
record a.tacho --stacks-hz 200 -- python3 program.py
state=$(sqlite3 -readonly a.tacho "SELECT value FROM run WHERE key = 'python'")
case $state in
"sampled: frames of Python 3."*) ;;
*"does not let tacho read"*) echo "$state" && exit 77 ;;
*) fail "not sampled: $state" ;;
esac
"$TACHO" report --json a.tacho > a.json || fail "report"
sqlite3 -readonly a.tacho "SELECT t.unit, count(*) FROM sample x JOIN track t ON t.id = x.track WHERE t.kind = 'python' GROUP BY 1" > states
grep -q '^asleep' states || fail "nothing slept: $(cat states)"
[ "$(sqlite3 -readonly a.tacho "SELECT count(DISTINCT process) FROM track WHERE kind = 'python'")" = 2 ] || fail "the child was not looked at"
python3 - a.json << 'PY' || fail "lines of Python"
import json, sys
report = json.load(open(sys.argv[1]))
python = report["python"]
assert python["window"] == "the whole run" and python["looks"] > 5, python["looks"]
lines = {(line["function"].rsplit(".", 1)[-1], line["line"]): line for line in python["lines"]}
sleeps, computes = lines[("sleeps", 10)], [line for name, line in lines.items() if name[0] == "computes" and line["program"]]
assert sleeps["program"] and sleeps["file"].endswith("program.py") and sleeps["self_pct"] > 0, sleeps
assert computes and sum(line["own_pct"] for line in computes) > 0, lines
assert sum(line["own_pct"] for line in python["lines"]) < 100.0001 and all(line["own_pct"] <= line["total_pct"] for line in python["lines"])
# 300 callers: the innermost frames are there, and a line counts once in a look
assert lines[("nested", 13)]["total_pct"] <= 100.0001
assert report["stacks"]["functions"] is None or all(" (" not in f["name"] or "program.py" not in f["name"] for f in report["stacks"]["functions"])
PY
"$TACHO" export --format python -o a.folded a.tacho || fail "export"
grep -q 'sleeps (.*program.py:10) [0-9]*$' a.folded || fail "folded: $(tail -3 a.folded)"
grep -q '\[truncated\]' a.folded || fail "300 callers are more than are kept"
"$TACHO" report a.tacho --section python > section || fail "report --section"
grep -q "program.py:10 sleeps" section || fail "section"
# what is not there
record b.tacho --python-hz 0 -- python3 program.py
"$TACHO" report --json b.tacho | grep -q '"/python/looks": "not looked at: tacho run looks at Python' || fail "no reason without looks"
[ "$(sqlite3 -readonly b.tacho "SELECT count(*) FROM track WHERE kind = 'python'")" = 0 ] || fail "--python-hz 0 looks"
# nobody has to ask for it: looks, no call stacks, and nothing in the environment of the program
cat > spins.py << 'PY'
import time

def spins(until):
    while time.monotonic() < until:
        pass

spins(time.monotonic() + 1.5)
PY
record d.tacho -- python3 spins.py
"$TACHO" report --json d.tacho > d.json || fail "report of looks without --stacks"
python3 - << 'PY' || fail "looks without --stacks"
import json
python = json.load(open("d.json"))["python"]
lines = [line for line in python["lines"] if line["function"].endswith("spins")]
assert python["looks"] >= 4 and python["looks_per_s"] <= 125 and sum(line["own_pct"] for line in lines) > 50, python
PY
"$TACHO" report --json d.tacho | grep -q '"/stacks/samples": "not asked for' || fail "call stacks without --stacks"
expect 0 "$TACHO" run --no-peak -o e.tacho -- python3 -c 'import os; assert "PYTHONPERFSUPPORT" not in os.environ'
record c.tacho --stacks -- true
"$TACHO" report --json c.tacho | grep -q '"/python/looks": "not sampled: no process of the run was Python"' || fail "no reason without Python"
expect 3 "$TACHO" export --format python c.tacho
