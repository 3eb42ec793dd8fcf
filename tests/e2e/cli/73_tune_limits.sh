#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# 'tacho tune': a limit of memory, a budget of money, trials that are ended early, a search written as a space for --replay.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder tune
cat > long << PROGRAM
#!/bin/sh
exec "$BUILD/tests/targets/target_events" --steps 100 --events 100 --spin \$((\$1 * 500000))
PROGRAM
chmod +x long

# memory: what needs more than the limit less a margin has failed, though it is set now and the fastest; no pairs are needed
cat > holder << PROGRAM
#!/bin/sh
python3 -c 'import sys; held = bytearray(int(sys.argv[1]) << 20); held[::4096] = b"x" * len(held[::4096])' "\$1"
exec "$BUILD/tests/targets/target_events" --steps 5 --events 20 --spin \$((40000000000 / (\$1 * \$1 * \$1)))
PROGRAM
chmod +x holder
"$TACHO" tune -o memory --trials 2 --rounds 4 --memory-limit 250M --json -- ./holder '{held:240,100}' > out 2> err || fail "exit $?: $(cat err)"
python3 - << 'PY' || fail "a limit of memory: $(cat out err)"
import json
found = json.load(open("out"))
assert found["better"] and found["settings"] == {"held": "100"} and found["failed"] == 1 and found["p"] is None, found
trials = list(map(json.loads, list(open("memory/trials.jsonl"))[1:]))
failed = [t for t in trials if t["value"] is None]
assert len(failed) == 2, trials # in the search, and in its first turn at the end
assert all("leaves less than 10 %" in t["reason"] and t["memory"] > 240e6 for t in failed), failed
PY
expect 2 "$TACHO" tune --money 1 -- ./long '{work:1,2}'
# money: an hour costs 3,600, a second 1: the search leaves room for the runs at the end, which are not begun either
"$TACHO" tune -o money --trials 50 --rounds 4 --money 2 --price 3600 --json -- ./long 1 '{nothing:1..60}' > out 2> err || fail "exit $?: $(cat err)"
python3 - << 'PY' || fail "a budget of money: $(cat out err)"
import json
trials = list(map(json.loads, list(open("money/trials.jsonl"))[1:]))
seconds = [t["seconds"] for t in trials]
assert json.load(open("out"))["evaluations"] < 50 and sum(seconds) < 2 + max(seconds), seconds
PY

# a trial that is slower than the best is ended, and cannot be a finalist
"$TACHO" tune -o early --trials 3 --rounds 4 --json -- ./long '{work:1,20,21}' > out 2> err || fail "exit $?: $(cat err)"
python3 - << 'PY' || fail "a slow trial is not ended: $(cat out err)"
import json
found = json.load(open("out"))
assert found["ended_early"] >= 1 and found["settings"] == {"work": "1"} and not found["better"], found
assert len(found["finalists"]) == 1 + 2 - found["ended_early"], found
PY
"$TACHO" tune -o whole --cache whole.json --trials 2 --rounds 4 --whole-trials --json -- ./long '{work:1,4}' > out 2> err || fail "exit $?: $(cat err)"
grep -q '"ended_early": *0' out || fail "--whole-trials: $(cat out)"
# a recording is no file for it, which is said before the first trial; nor is one left where it cannot be written
sqlite3 kept.tacho 'CREATE TABLE t(a)'
cp kept.tacho before.tacho
expect 3 "$TACHO" tune -o refused --cache kept.tacho --trials 2 --rounds 4 -- ./long '{work:1,4}'
{ cmp -s kept.tacho before.tacho && [ ! -e refused ]; } || fail "--cache has overwritten a recording: $(cat "$work/err")"
expect 3 "$TACHO" tune -o refused --cache nowhere/cache.json --trials 2 --rounds 4 -- ./long '{work:1,4}'
[ ! -e refused ] || fail "trials for a cache that cannot be written"
"$TACHO" tune --replay whole.json --json > out || fail "what --cache writes is not read: $(cat whole.json)"
python3 - << 'PY' || fail "the replay of a search: $(cat out whole.json)"
import json
found = json.load(open("out"))
assert found["configurations"] == found["evaluations"] == 2 and found["settings"] == {"work": "1"}, found
PY
exit 0
