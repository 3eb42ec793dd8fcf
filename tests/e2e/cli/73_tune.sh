#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# 'tacho tune': a command with a best setting, a value that fails and a parameter that does nothing; kills, after which no trial is made twice;
# refusals; a replay of a space that was measured once.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder tune
cat > program << PROGRAM
#!/bin/sh
[ "\$2" = broken ] && exit 3
echo "\$@" >> started
away=\$((\$1 - 5))
exec "$BUILD/tests/targets/target_events" --steps 5 --events 20 --spin \$((100000 + 400000 * away * away))
PROGRAM
chmod +x program
search=("$TACHO" tune --trials 16 --rounds 5 --json -- ./program '{work:1..8=2}' '{mode:safe,broken,other}')

# killed between and in trials: the same command goes on, and what was kept is not run again
for ((i = 0; i < 6; i++)); do
    "${search[@]}" > out 2> err &
    tuner=$!
    sleep 0.$((i + 2))
    kill -9 $tuner
    wait $tuner 2> /dev/null
done
lines=$(wc -l < tune/trials.jsonl)
"${search[@]}" > out 2> err || fail "exit $?: $(cat err)"
python3 - "$lines" << 'PY' || fail "what was found: $(cat out err)"
import json, sys
lines = [json.loads(line) for line in open("tune/trials.jsonl")]
trials = [t["configuration"] for t in lines[1:] if not t["confirms"]]
assert len(trials) == len(set(trials)) == 16 and len(lines) >= int(sys.argv[1]), trials
found = json.load(open("out"))
work, mode = found["settings"]["work"], found["settings"]["mode"]
assert found["better"] and work in ("4", "5", "6") and mode in ("safe", "other"), found # beside 5 a step is a tenth of one with 2
assert found["command"] == f"./program {work} {mode}", found
assert found["evaluations"] == 16 and found["failed"] >= 1 and found["importance"]["work"] > 0.5, found
assert found["response"]["work"]["5"] < found["response"]["work"]["1"] and len(found["response"]["mode"]) == 3, found["response"]
first = found["finalists"][0]
# three turns or, where it is slower in each than the best, two; then five pairs with the winner
assert first["settings"] == {"work": "2", "mode": "safe"} and first["runs"] == 8, first
pairs = [t["configuration"] for t in lines[1:] if t.get("pairs")]
assert len(pairs) == 10 and len(set(pairs)) == 2, pairs
assert all(t["seconds"] > 0 for t in lines[1:]), lines[1]
PY
as_schema tune out
before=$(wc -l < started)
"${search[@]}" > out 2> err && [ "$(wc -l < started)" = "$before" ] || fail "a finished search was run again"
"$TACHO" tune --trials 16 --rounds 5 -- "${search[@]:8}" > out 2> err || fail "a finished search as text: exit $?: $(cat err)"
grep -q '^  work: 2 -> [456]$' out && grep -q '^predicted ms a sample, ' out && grep -q '^  work  *1 .*##' out && [ "$(wc -l < started)" = "$before" ] || fail "no picture of the response: $(cat out)"
"$TACHO" tune --trials 13 --json -- ./program '{work:1..7=2}' > out 2> err
[ $? = 3 ] && grep -q 'another search' err || fail "another command in the folder: $(cat err)"

# nothing is better than the best
"$TACHO" tune -o best --trials 4 --rounds 4 -- ./program '{work:5,8}' > out 2> err || fail "exit $?: $(cat err)"
grep -q '^nothing is' out || fail "the best setting is bettered: $(cat out)"
# the journal is a file: a trial of a configuration that there is none of is none
for number in 999999999999 -1; do
    echo "{\"configuration\":$number,\"confirms\":false,\"ended\":false,\"known\":true,\"memory\":null,\"pairs\":false,\"seconds\":1,\"value\":1e-9}" >> best/trials.jsonl
done
"$TACHO" tune -o best --trials 4 --rounds 4 -- ./program '{work:5,8}' > out 2> err || fail "trials of no configuration: exit $?: $(cat err)"
grep -q '^nothing is' out || fail "a trial of no configuration is the best: $(cat out)"
# what is not a search of speed, or not one at all
expect 4 "$TACHO" tune -- ./program '{batch:1,2}'
expect 0 "$TACHO" tune --dry-run --allow-different-training -- ./program '{batch:1..64:log2=8}'
grep -q '7 values, 1 to 64' "$work/out" && grep -q '  ./program 8' "$work/out" || fail "--dry-run: $(cat "$work/out")"
expect 0 "$TACHO" tune --dry-run --json -- ./program '{work:1..3=2}' '{mode:safe,broken}'
as_schema tune "$work/out"
python3 -c '
import json, sys
plan = json.load(open(sys.argv[1]))
assert plan["parameters"] == {"work": ["1", "2", "3"], "mode": ["safe", "broken"]} and plan["configurations"] == 6, plan
assert plan["settings"] == {"work": "2", "mode": "safe"} and plan["command"] == "./program 2 safe" and plan["evaluations"] == 0, plan' \
    "$work/out" || fail "--dry-run --json: $(cat "$work/out")"
expect 2 "$TACHO" tune -- ./program
expect 2 "$TACHO" tune
expect 2 "$TACHO" tune -- ./program '{work:8..1}'
expect 2 "$TACHO" tune -- ./program '{work:1,2=3}'
expect 2 "$TACHO" tune -- ./program '{work:1,2}' '{work:1,2}'
expect 4 "$TACHO" tune -- ./program '{a:1..1000}' '{b:1..1000}'
expect 3 "$TACHO" tune -o fails -- ./program '{work:5,8}' broken

# a space that was measured once
python3 - << 'PY'
import gzip, json
results = [{"configuration": {"x": x, "y": y, "flag": f, "fixed": 7}, "objectives": ["time"],
            "invalidity": "correct" if x * y <= 256 else "runtime",
            "measurements": [{"name": "time", "value": 5 + abs(x.bit_length() - 5) * 2 + (y - 3) ** 2 + 4 * (not f), "unit": "ms"}]}
           for x in (1, 2, 4, 8, 16, 32, 64, 128) for y in range(1, 9) for f in (False, True)]
json.dump({"schema_version": "1.0.0", "metadata": {}, "results": results}, gzip.open("cache.json.gz", "wt"))
json.dump({"results": []}, open("none.json", "w"))
PY
for seed in 1 2 3; do
    "$TACHO" tune --replay cache.json.gz --evaluations 40 --seed $seed --json > out || fail "replay: exit $?"
    python3 -c '
import json
found = json.load(open("out"))
assert found["ratio_to_optimum"] == 1 and found["optimum"] == 5 and found["evaluations"] == 40 == len(found["trace"]), found
assert found["settings"] == {"x": "16", "y": "3", "flag": "1", "fixed": "7"}, found' || fail "the replay: $(cat out)"
done
as_schema tune out
expect 3 "$TACHO" tune --replay none.json
expect 3 "$TACHO" tune --replay program
expect 3 "$TACHO" tune --replay nowhere
exit 0
