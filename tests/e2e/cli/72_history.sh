#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# 'tacho history': recorded runs are entered with command, host and commit; a planted change is found and the operator named; the gate
# against the last stable level; runs that failed give the interval of checkpoints; two writers at once, a killed writer, a full disk, another user's file; opting out; bisect.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v git > /dev/null || { echo "needs the program git"; exit 77; }
work_folder history
export TACHO_HISTORY=$work/history.db GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
unset OMP_WAIT_POLICY # a setting that the history shows before the command
target=$BUILD/tests/targets/target_events
says() { grep -q -- "$1" "$work/$2" || fail "$2 does not say '$1': $(cat "$work/$2")"; }

# ---- runs are entered ----
expect 3 "$TACHO" history list
says 'no run has been entered yet' err
git init -q . && git commit -q --allow-empty -m first && git gc -q 2> /dev/null
expect 0 "$TACHO" run --no-peak -o a.tacho -- "$target" --steps 8 --events 800
expect 0 env TACHO_HISTORY=off "$TACHO" run --no-peak -o b.tacho -- "$target" --steps 8 --events 800
schema() { python3 "$SRC/tests/e2e/cli/schemas.py" "$SRC/docs/schemas" "$1" "$work/out" || fail "not as docs/schemas/$1.json says"; }
expect 0 "$TACHO" history list --json
schema history-list
python3 - "$work/out" "$(git rev-parse HEAD)" << 'PY' || fail "what is listed: $(cat "$work/out")"
import json, sys
(row,) = json.load(open(sys.argv[1]))
assert row["commit"] == sys.argv[2] and row["steps"] and row["step_ms"] > 0, row
assert row["command"] == "target_events --steps 8 --events 800", row
PY
expect 0 "$TACHO" history show a.tacho
says 'target_events --steps 8' out
expect 0 "$TACHO" history show a.tacho --json
schema history-run
expect 0 env -C "$work" HOME=/ "$TACHO" history show 1
# packed refs, a detached head and a working tree of its own are read like a branch
git pack-refs --all && git worktree add -q --detach "$work/tree" && git checkout -q --detach
for place in . "$work/tree"; do
    name=$(basename "$place")x.tacho
    (cd "$place" && expect 0 "$TACHO" run --no-peak -o "$name" -- "$target" --steps 8 --events 800) || exit 1
    [ "$(sqlite3 "$TACHO_HISTORY" "SELECT count(*) FROM run WHERE git_commit = '$(git rev-parse HEAD)'")" -ge 2 ] || fail "no commit from $place"
done
git checkout -q -

# ---- how often the runs of a command failed decides how often it writes checkpoints ----
export TACHO_HISTORY=$work/failures.db
often=("$BUILD/train" gpt2-tiny --steps 40 --checkpoint-every 2 --checkpoint "$work/often.ckpt")
expect 0 "$TACHO" run --no-peak -o often.tacho -- "${often[@]}"
expect 0 "$TACHO" report often.tacho --explain CHECKPOINT
says 'tacho report --mtbf HOURS' out
expect 0 "$TACHO" history export --json
cp "$work/out" one.json
earlier() { # FAILED: five earlier runs of 12.5 hours, of which so many failed
    python3 - one.json "$1" > earlier.jsonl << 'PY'
import json, sys
run = json.load(open(sys.argv[1]))
ended = {value["name"]: value for value in run["values"] if value["kind"] == "run"}
assert ended["failed"]["value"] == 0 and 0 < ended["hours"]["value"] < 1, ended
for i in range(5):
    run["key"], run["begun_ns"] = "%016x" % i, run["begun_ns"] - 1
    ended["hours"]["value"], ended["failed"]["value"] = 12.5, int(i < int(sys.argv[2]))
    print(json.dumps(run))
PY
    expect 0 "$TACHO" history import earlier.jsonl
}
earlier 2
expect 0 "$TACHO" report often.tacho --explain CHECKPOINT
says 'tacho report --mtbf HOURS' out
earlier 3
expect 0 "$TACHO" report often.tacho --explain CHECKPOINT --width 200
says 'fails every 20.83 hours (3 failures in 62.5 hours of 6 runs, tacho history; Young, Daly)' out
says 'steps instead of 2 (--checkpoint-every [0-9]*)' out
expect 0 "$TACHO" report often.tacho --explain CHECKPOINT --width 200 --mtbf 3
says 'fails every 3 hours (Young, Daly)$' out

# ---- sixty runs with a planted change of one operator ----
python3 - > runs.jsonl << 'PY'
import json, random
random.seed(5)
for i in range(60):
    machine = random.gauss(1, 0.024)
    matmul, norm, rest = 30 * machine, (6.6 if i >= 31 else 4) * machine, 13 * machine
    values = [("step", "mean", matmul + norm + rest), ("step", "median", matmul + norm + rest), ("operator", "matmul.forward", matmul),
              ("operator", "layernorm.forward", norm), ("class", "compute", matmul + norm + rest)]
    print(json.dumps({"schema": "tacho-history-run/1", "key": "%016x" % i, "begun_ns": (1_790_000_000 + 3600 * i) * 10**9, "recipe": "train.py",
                      "host": "a machine", "commit": "%040x" % (i // 2), "steps": 100, "environment": {"kernel": "6.1"},
                      "values": [dict(kind=k, name=n, unit="ms", value=v) for k, n, v in values]}))
PY
export TACHO_HISTORY=$work/planted.db
expect 0 "$TACHO" history import runs.jsonl
expect 0 "$TACHO" history export --json
[ "$(wc -l < "$work/out")" = 60 ] || fail "lines of the export: $(wc -l < "$work/out")"
schema history-run
expect 0 "$TACHO" history compare 1 60 --json
schema history-compare
expect 0 "$TACHO" history trend --json
schema history-trend
python3 - "$work/out" << 'PY' || fail "the trend: $(cat "$work/out")"
import json, sys
trend = json.load(open(sys.argv[1]))
(change,) = trend["changes"]
assert change["earliest"]["id"] <= 32 <= change["latest"]["id"] and change["latest"]["id"] - change["earliest"]["id"] <= 15, change
assert 3 < change["change_pct"] < 8, change
operators = [m["name"] for m in change["moved"] if m["kind"] == "operator"]
assert operators == ["layernorm.forward"], change
assert int(change["last_before"]["commit"], 16) < 16 <= int(change["latest"]["commit"], 16) + 1, change
assert trend["level"]["runs"] == 29 or change["first"]["id"] != 32
assert 0 < trend["level"]["detectable_by_5_runs_pct"] < trend["level"]["detectable_by_1_run_pct"] < 15, trend["level"]
PY
expect 0 "$TACHO" history trend
says 'layernorm.forward' out
says 'tacho history bisect --good' out
expect 3 "$TACHO" history trend --metric operator.nothing
says 'has operator.nothing' err

# ---- the gate ----
candidates() { # FACTOR: five runs after the others
    python3 - "$1" << 'PY' > more.jsonl
import json, sys
for i in range(5):
    ms = 49.6 * float(sys.argv[1]) * (1 + 0.01 * (i - 2))
    print(json.dumps({"schema": "tacho-history-run/1", "key": "f%015x" % i, "begun_ns": (1_791_000_000 + i) * 10**9, "recipe": "train.py",
                      "host": "a machine", "steps": 100, "values": [dict(kind="step", name=n, unit="ms", value=ms) for n in ("mean", "median")]}))
PY
    expect 0 "$TACHO" history import more.jsonl
}
newest() { sqlite3 "$TACHO_HISTORY" "SELECT id FROM run ORDER BY begun_ns DESC LIMIT 5"; }
candidates 1.2
# shellcheck disable=SC2046 # five numbers
expect 1 "$TACHO" diff --baseline history --fail-above 3% $(newest)
says '^failed: ' out
candidates 1.0
# shellcheck disable=SC2046
expect 0 "$TACHO" diff --baseline history --fail-above 6% --json $(newest)
schema history-check
python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["state"] == "passed" and d["candidate_runs"] == 5, d' "$work/out" ||
    fail "the gate: $(cat "$work/out")"
expect 6 "$TACHO" history check --fail-above 3% "$(newest | head -1)"
expect 2 "$TACHO" diff a.tacho
expect 2 "$TACHO" history list --fail-above 3
expect 2 "$TACHO" history tredn
says "did you mean 'trend'" err

# runs that other tools have logged have a mean step and no median: means are compared
export TACHO_HISTORY=$work/foreign.db
{
    echo 'Name,Created,train/step_time'
    for day in $(seq 10 21); do echo "a,2026-11-$day,0.25$((day % 3))"; done
    for day in $(seq 22 26); do echo "a,2026-11-$day,0.30$((day % 3))"; done
} > foreign.csv
expect 0 "$TACHO" history import foreign.csv
expect 1 "$TACHO" history check --fail-above 3% 13 14 15 16 17
says '^baseline: 251 ms, 12 runs' out
echo 'Name,Created,loss
b,2026-11-27,1.5' > stepless.csv
expect 0 "$TACHO" history import stepless.csv
expect 3 "$TACHO" history check 18
says 'has no time of its steps' err

# ---- several writers, one that is killed, no space, a foreign file ----
export TACHO_HISTORY=$work/shared.db
for k in 0 1 2 3; do sed "s/\"key\": \"0/\"key\": \"$k/" runs.jsonl > "part$k"; done
for ((i = 0; i < 20; i++)); do # a history that four writers begin: one of them makes it
    rm -f "$TACHO_HISTORY"
    for k in 0 1 2 3; do "$TACHO" history import "part$k" 2> "$work/err$k" & done
    wait
    [ "$(sqlite3 "$TACHO_HISTORY" 'SELECT count(*) FROM run')" = 240 ] || fail "writers at once: $(cat "$work"/err?)"
done
for ((i = 0; i < 12; i++)); do
    sed "s/\"key\": \"00/\"key\": \"a$(printf %x $i)/" runs.jsonl > part
    "$TACHO" history import part 2> /dev/null &
    writer=$!
    sleep 0.00$i
    kill -9 $writer 2> /dev/null
    wait $writer 2> /dev/null
done
"$TACHO" history import part0 2> "$work/err" || fail "after kills: $(cat "$work/err")"
[ "$(sqlite3 "$TACHO_HISTORY" 'PRAGMA integrity_check; SELECT count(*) % 60 FROM run')" = "$(printf 'ok\n0')" ] || fail "a killed writer left a part"
before=$(sqlite3 "$TACHO_HISTORY" 'SELECT count(*) FROM run')
sed 's/"key": "0/"key": "e/' runs.jsonl > part
(ulimit -f 1 && trap '' XFSZ && "$TACHO" history import part > /dev/null 2> "$work/err")
rc=$?
[ $rc = 3 ] && grep -q '^tacho: ' "$work/err" || fail "no space: exit $rc, $(cat "$work/err")"
[ "$(sqlite3 "$TACHO_HISTORY" 'PRAGMA integrity_check; SELECT count(*) FROM run')" = "$(printf 'ok\n%s' "$before")" ] || fail "no space left a part"
echo 'not a database, and long enough to be looked at as one, which it is not at all; it only holds these words' > "$work/words"
expect 3 env TACHO_HISTORY="$work/words" "$TACHO" history list
expect 0 env TACHO_HISTORY="$work/words" "$TACHO" run --no-peak -o c.tacho -- "$target" --steps 8 --events 80
[ "$(wc -c < "$work/words")" -lt 200 ] || fail "a foreign file was changed"
# a history of another's make: what its schema says is not run
cp "$TACHO_HISTORY" "$work/hostile.db"
sqlite3 "$work/hostile.db" 'ALTER TABLE run RENAME TO kept;
    CREATE VIEW run AS WITH RECURSIVE forever(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM forever) SELECT kept.* FROM kept, forever'
expect 3 timeout 20 env TACHO_HISTORY="$work/hostile.db" "$TACHO" history list

# ---- bisect: the third of five commits makes the step ten times as long ----
export TACHO_HISTORY=off
for ((i = 0; i < 6; i++)); do
    if [ $i -lt 3 ]; then echo 100000 > spin; else echo 1000000 > spin; fi
    echo $i > other && git add spin other && git commit -q -m "commit $i"
done
# shellcheck disable=SC2016 # the inner shell reads the file of its commit
expect 0 "$TACHO" history bisect --good HEAD~5 --bad HEAD --build 'test -f spin' -- \
    sh -c 'exec "$0" --steps 10 --events 100 --spin $(cat spin)' "$target"
says "first commit with the longer step: $(git rev-parse HEAD~2)" out
says 'commit 3' out
[ "$(git worktree list | wc -l)" = 2 ] || fail "a working tree is left: $(git worktree list)"
expect 2 "$TACHO" history bisect --good HEAD -- true
expect 3 "$TACHO" history bisect --good HEAD --bad HEAD~2 -- true
exit 0
