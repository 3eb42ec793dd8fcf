#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# JSON of all commands: documents and messages are as docs/schemas says (plans: 71_plan.sh, 'verify': 67_verify.sh, calibrations:
# 24_calibrate.sh, 'history': 72_history.sh, 'tune': 73_tune.sh, 'watch': 76_watch.sh); every command that prints JSON has a schema, and every schema a test;
# --fields and --limit; thirty wrong invocations with --json give one object on stderr, nothing on stdout, and the exit code that it names.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work_folder json
export XDG_CACHE_HOME=$PWD/cache OMP_NUM_THREADS=1
# ---- documents
"$TACHO" run --no-peak -o run.tacho -- "$TRAIN" mlp --steps 12 --workers 1 > log 2>&1 || fail "$(cat log)"
"$TACHO" run --no-peak -o bare.tacho -- true > log 2>&1 || fail "$(cat log)"
python3 "$SRC/tests/e2e/ranks/many_ranks.py" ranks --ranks 4 --slow 2 --kernels 4 || fail "many_ranks.py"
for run in run.tacho bare.tacho ranks; do
    "$TACHO" report $run --json > report.json || fail "report $run"
    as_schema report report.json
done
"$TACHO" diff run.tacho run.tacho --json > diff.json || fail "diff"
as_schema diff diff.json
"$TACHO" diff --fail-above 3% --json run.tacho run.tacho -- run.tacho run.tacho > diff.json
as_schema diff diff.json
"$TACHO" advise ranks --json > advice.json || fail "advise"
as_schema advice advice.json
"$TACHO" ls --json > ls.json || fail "ls"
as_schema ls ls.json
"$TACHO" doctor --json > doctor.json || [ $? = 4 ] || fail "doctor"
as_schema doctor doctor.json
"$TACHO" top run.tacho --json -n 1 > top.json || fail "top"
as_schema top top.json
for more in --tracelens-compat --hta-compat --tb-compat "--definitions --by module"; do
    # shellcheck disable=SC2086 # options
    "$TACHO" report ranks --json $more > report.json || fail "report $more"
    as_schema report report.json
done
"$TACHO" sql run.tacho --json "SELECT * FROM step; SELECT 1 WHERE 0; SELECT NULL AS none, x'00ff' AS bytes, 0.5 AS half" > sql.json || fail "sql"
as_schema sql sql.json

# ---- the table of docs/agents.md
python3 - "$TACHO" "$SRC" << 'PY' || fail "commands, their schemas and tests"
import glob, os, re, subprocess, sys
tacho, top = sys.argv[1:]
said = lambda *words: subprocess.run([tacho, *words], stdout=subprocess.PIPE, check=True, text=True).stdout
commands = re.findall(r"^  ([a-z]+) {2,}[a-z]", said("help").split("commands:")[1], re.M)
prints = {c for c in commands if "--json" in said("help", c)}
rows = re.findall(r"^\| `tacho ([a-z]+)[^|`]*--json`[^|]*\|(.*)\|$", open(f"{top}/docs/agents.md").read(), re.M)
assert {command for command, _ in rows} == prints and len(prints) >= 12, (rows, prints)
linked = set(re.findall(r"\(schemas/([a-z-]+)\.json\)", open(f"{top}/docs/agents.md").read()))
there = {os.path.basename(path)[:-5] for path in glob.glob(f"{top}/docs/schemas/*.json")}
assert linked == there, linked ^ there
tests = "".join(open(path).read() for path in glob.glob(f"{top}/tests/e2e/*/*.sh"))
tried = set(re.findall(r"^\W*(?:command -v python3 > /dev/null \|\| )?(?:as_)?schema ([a-z-]+)", tests, re.M))
assert there <= tried, there - tried
PY

# ---- parts of them
python3 - "$TACHO" << 'PY' || fail "--fields and --limit"
import json, subprocess, sys
def tacho(*words):
    return json.loads(subprocess.run([sys.argv[1], *words], stdout=subprocess.PIPE, check=True).stdout)
whole = tacho("report", "run.tacho", "--json")
part = tacho("report", "run.tacho", "--json", "--fields", "verdict,steps.median_ms,kernels.name,devices,steps.note", "--limit", "2")
assert part["verdict"] == whole["verdict"] and part["steps"] == {"median_ms": whole["steps"]["median_ms"], "note": None}, part
assert part["kernels"] == [{"name": k["name"]} for k in whole["kernels"][:2]], part["kernels"]
assert part["left_out"] == {"/kernels": len(whole["kernels"]) - 2} and part["devices"] is None, part
assert part["absent"] == {k: whole["absent"][k] for k in ("/devices", "/steps/note")}, part["absent"]
assert set(part) == {"verdict", "steps", "kernels", "devices", "left_out", "absent"}, list(part)
assert all(set(r) == {"run", "steps"} for r in tacho("ls", "--json", "--fields", "run,steps"))
assert set(tacho("diff", "run.tacho", "run.tacho", "--json", "--fields", "verdict,step.delta_ms")) == {"verdict", "step"}
assert len(tacho("doctor", "--json", "--limit", "3")["checks"]) == 3
# what is next is a list of words that runs
for row in whole["next"]:
    if row["command"][1] == "report":
        subprocess.run([sys.argv[1], *row["command"][1:]], stdout=subprocess.DEVNULL, check=True)
PY

# ---- a list has at most 10,000 rows of a table, whatever the file claims; what is left out is told
cp run.tacho many.tacho
sqlite3 many.tacho "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
    INSERT INTO process (id, rank, host, pid, program, start) SELECT i + 1000, i, 'h' || i, i, 'p', 1 FROM n;
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
    INSERT INTO step SELECT i + 1000, 0, s.start, s.start + 1000000, NULL, NULL, 0 FROM n, (SELECT min(start) AS start FROM slice) AS s" || fail "many ranks"
"$TACHO" report many.tacho --json > many.json || fail "report of many ranks"
as_schema report many.json
"$TACHO" report many.tacho --json --limit 7 --fields budget_by_device.rank > few.json || fail "a part of many ranks"
python3 - << 'PY' || fail "rows left out: $(head -c 300 few.json)"
import json
whole, part = json.load(open("many.json")), json.load(open("few.json"))
left = whole["left_out"]["/budget_by_device"]
assert len(whole["budget_by_device"]) == 10000 and left >= 2000, left
assert len(part["budget_by_device"]) == 7 and part["left_out"] == {"/budget_by_device": left + 10000 - 7}, part["left_out"]
PY

# ---- errors
head -c 3000 run.tacho > broken.tacho
echo text > text.tacho
echo '{"traceEvents": []}' > empty.json
mkdir folder
wrong=0
refuse() { # CODE WORD...: exit code, one object of the schema with that code, and no other output
    local want=$1
    shift
    expect "$want" "$TACHO" "$@"
    [ ! -s "$work/out" ] || fail "on stdout: $* ($(head -c 200 "$work/out"))"
    [ "$(wc -l < "$work/err")" = 1 ] || fail "not one line: $* ($(cat "$work/err"))"
    cp "$work/err" "message.$wrong.json"
    grep -q "\"kind\":\"error\".*\"exit_code\":$want," "$work/err" || fail "exit code $want: $* ($(cat "$work/err"))"
    wrong=$((wrong + 1))
}
refuse 2 reprot --json
refuse 2 --json
refuse 2 report --json --banana
refuse 2 report --banana --json
refuse 2 report -j --jsn
refuse 2 report --json one two
refuse 2 report --json --html
refuse 2 report --json --section budget
refuse 2 report --json --width 7
refuse 2 report --json --steps 7:3 run.tacho
refuse 2 report --json --by banana run.tacho
refuse 2 report --json --fields banana run.tacho
refuse 2 report --json --fields steps.banana run.tacho
refuse 2 report --json --fields steps,,verdict run.tacho
refuse 2 report --json --fields '' run.tacho
refuse 2 ls --json --fields run, .
refuse 2 report --json --limit 0 run.tacho
refuse 2 report --json --step-marker '(' run.tacho
refuse 3 report --json nothing.tacho
refuse 3 report --json broken.tacho
refuse 3 report --json text.tacho
refuse 3 report --json empty.json
refuse 3 report --json folder
refuse 3 report --json --classes nothing run.tacho
refuse 3 report --json run.tacho -o folder
refuse 2 diff --json run.tacho
refuse 2 diff --json run.tacho run.tacho run.tacho
refuse 2 diff --json --fail-above banana run.tacho run.tacho
refuse 3 diff --json run.tacho nothing.tacho
refuse 2 advise --json --what-if banana=0 run.tacho
refuse 2 advise --json --what-if op:banana=0 run.tacho
refuse 4 advise --json bare.tacho
refuse 2 verify --json run.tacho 99 --yes
refuse 3 verify --json nothing.tacho 1
refuse 2 plan --json llama-9-8b
refuse 2 plan --json llama-3-8b --layout pp=x
refuse 3 plan --json --check nothing.csv
refuse 3 ls --json nowhere
refuse 3 ls --json folder nowhere
refuse 2 ls --json --limit 0
refuse 2 ls --json --fields banana
refuse 2 doctor --json --color=blue
refuse 2 sql --json --csv run.tacho 'SELECT 1'
refuse 2 sql --json run.tacho 'SELEC 1'
refuse 3 sql --json nothing.tacho 'SELECT 1'
refuse 2 top --json --batch run.tacho
refuse 3 top --json nothing.tacho
# a text of a damaged file is as long in a line of top as in a report at most
cp run.tacho long.tacho
sqlite3 long.tacho "UPDATE track SET device = replace(hex(zeroblob(1500000)), '0', char(1)) WHERE id = (SELECT min(id) FROM track WHERE kind = 'counter')"
"$TACHO" top --json -n 1 long.tacho > long.json || fail "top --json of a long text"
as_schema top long.json
[ "$(stat -c %s long.json)" -lt 1000000 ] || fail "a text of 3 MB takes $(stat -c %s long.json) bytes"
refuse 2 calibrate --json --banana
[ $wrong -ge 30 ] || fail "$wrong invocations"
as_schema message message.*.json
expect 2 "$TACHO" report --fields verdict run.tacho
# without --json messages stay text, also those of a program that has an option of this name
expect 3 "$TACHO" report nothing.tacho
grep -q '^tacho: nothing.tacho' "$work/err" || fail "text: $(cat "$work/err")"
"$TACHO" run --no-peak -o other.tacho -- true --json > log 2>&1 || fail "run"
grep -q '^tacho: ' log || fail "run: $(cat log)"
echo "$wrong wrong invocations"
