#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# 'tacho ls': a run that is being recorded in another folder, finished, unfinished, damaged and empty files, formats, bad folders.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder ls
mkdir here elsewhere empty
record() { "$TACHO" run --no-peak -o "$1" -- "$BUILD/tests/targets/target_events" --steps "$2" --events 1000 > /dev/null 2> log || fail "run: $(cat log)"; }
record here/old.tacho 5
record here/new.tacho 7
mkfifo go
"$TACHO" run --no-peak -o elsewhere/live -- sh -c 'cat go > done' > /dev/null 2> live.log &
recorder=$!
for ((i = 0; i < 100; i++)); do
    [ -s elsewhere/live.tacho.live/run.db ] && break
    sleep 0.1
done
# a recorder that was killed leaves a folder that nobody holds
cp -r here/old.tacho here/.keep
mkdir here/dead.tacho.live && cp here/old.tacho here/dead.tacho.live/run.db
: > here/nothing.tacho
head -c 5000 here/old.tacho > here/broken.tacho
sqlite3 here/bare.tacho "CREATE TABLE t (x)"
"$TACHO" ls here --json > list.json || fail "ls: exit $?"
"$TACHO" ls here > list.txt || fail "ls as a table"
( cd here && "$TACHO" ls --csv > ../list.csv ) || fail "ls as CSV"
echo > go
wait $recorder
python3 - << 'PY' || fail "what is listed: $(cat list.txt)"
import csv, json
rows = {r["run"]: r for r in json.load(open("list.json")) if r["run"].startswith("here/") or r["run"].endswith("/elsewhere/live.tacho.live")}
live = [r for name, r in rows.items() if name.startswith("/")]
assert len(live) == 1 and live[0]["state"] == "recording", rows
states = {name: (r["state"], r["steps"]) for name, r in rows.items() if not name.startswith("/")}
assert states == {"here/new.tacho": ("finished", 7), "here/old.tacho": ("finished", 5), "here/dead.tacho.live": ("unfinished", 5),
                  "here/broken.tacho": ("damaged", None), "here/bare.tacho": ("damaged", None)}, states
assert rows["here/new.tacho"]["step_ms"] > 0 and rows["here/new.tacho"]["verdict"], rows
names = list(rows)
assert names[0].startswith("/") and names.index("here/new.tacho") < names.index("here/old.tacho"), names
table = open("list.txt").read()
assert len([l for l in table.splitlines() if "here/" in l]) == 5, table
assert {r["run"] for r in csv.DictReader(open("list.csv"))} >= {"new.tacho", "old.tacho", "dead.tacho.live"}
PY
[ "$("$TACHO" ls here --csv --limit 2 | wc -l)" = 3 ] || fail "--limit"
"$TACHO" ls empty > out 2> err || fail "an empty folder: exit $?"
"$TACHO" ls nowhere > out 2> err
[ $? = 3 ] && grep -q '^tacho: nowhere: ' err && grep -q '^hint: ' err || fail "a folder that is not there: $(cat err)"
"$TACHO" ls nowhere here > out 2> err
[ $? = 3 ] && grep -q 'here/new.tacho' out || fail "one folder of two: $(cat err out)"
# a program gets a whole list or an error, never a part of a list
"$TACHO" ls nowhere here --json > out 2> err
[ $? = 3 ] && [ ! -s out ] && grep -q '"exit_code":3,"what":"nowhere: ' err || fail "JSON of one folder of two: $(cat err out)"
[ "$(sqlite3 here/old.tacho "SELECT count(*) FROM step")" = 5 ] && cmp -s here/old.tacho here/.keep || fail "a file was changed"
[ -d here/dead.tacho.live ] || fail "an unfinished run was finished"
exit 0
