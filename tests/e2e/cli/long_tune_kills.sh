#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# 'tacho tune' killed 20 times at a random moment, in trials, between them and in the runs at the end: every line that was written stays, no
# configuration is tried twice, and no run at the end is made more often than asked for. KILLS=N, SEED=N.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder tune
kills=${KILLS:-20}
RANDOM=${SEED:-1}
cat > program << PROGRAM
#!/bin/sh
exec "$BUILD/tests/targets/target_events" --steps 5 --events 20 --spin \$((100000 + 300000 * \$1))
PROGRAM
chmod +x program
search=("$TACHO" tune --trials 24 --rounds 5 --json -- ./program '{work:1..8=8}' '{mode:a,b,c}')
touch kept
for ((i = 0; i < kills; i++)); do
    "${search[@]}" > out 2> err &
    tuner=$!
    sleep "$((RANDOM % 3)).$((RANDOM % 10))"
    kill -9 $tuner 2> /dev/null
    wait $tuner 2> /dev/null
    [ -f tune/trials.jsonl ] || continue
    cmp -s -n "$(stat -c %s kept)" kept tune/trials.jsonl || fail "kill $i: a trial that was kept is lost"
    grep -v '[^}]$' tune/trials.jsonl > kept # whole lines: the last one may be torn
done
"${search[@]}" > out 2> err || fail "after $kills kills: exit $?: $(cat err)"
cmp -s -n "$(stat -c %s kept)" kept tune/trials.jsonl || fail "a trial that was kept is lost"
python3 - "$(wc -l < kept)" << 'PY' || fail "the trials: $(cat tune/trials.jsonl)"
import collections, json, sys
lines = [json.loads(line) for line in open("tune/trials.jsonl")][1:]
tried = collections.Counter(t["configuration"] for t in lines if not t["confirms"])
turns = collections.Counter(t["configuration"] for t in lines if t["confirms"] and not t["pairs"])
pairs = collections.Counter(t["configuration"] for t in lines if t["pairs"])
assert len(tried) == 24 and set(tried.values()) == {1}, tried
assert max(turns.values()) <= 3 and len(turns) <= 11, turns
assert not pairs or (len(pairs) == 2 and set(pairs.values()) == {5}), pairs
print(f"{sys.argv[1]} lines at the last kill, {len(lines)} in all")
PY
exit 0
