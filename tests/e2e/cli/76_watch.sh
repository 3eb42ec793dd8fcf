#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# 'tacho watch': a run while it is recorded, its log, command and responses; a recording replayed twice says the same; settings that
# are wrong; what is acknowledged; nothing of the run is changed.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder watch
export XDG_STATE_HOME=$PWD/state XDG_CONFIG_HOME=$PWD/config

cat > watch.conf << 'CONF'
# everything that is sent stays in this folder
sink.log = alerts.jsonl
sink.command = printf "%s\n" "$(cat)" >> sent.jsonl
response.NUMERICS = echo "$TACHO_CODE $TACHO_EVENT $TACHO_STEP" >> responses
response.RUN_FAILED = touch dry
response.limit = 1
silence = GRAD_NORM*
CONF

# a program whose loss is not a number from step 30 on, and which then waits until it has been seen
cat > diverges.py << 'PY'
import os, sys, time
import tacho
tacho.step()
for step in range(60):
    time.sleep(0.01)
    tacho.counter("loss", float("nan") if step >= 30 else 2.0 + 0.01 * (step % 3))
    tacho.step()
for _ in range(200):
    if os.path.exists("seen"):
        break
    time.sleep(0.05)
sys.exit(3)
PY
PYTHONPATH=$SRC/profiler/python "$TACHO" run --no-peak -o live -- python3 diverges.py > run.log 2>&1 &
recorder=$!
for ((i = 0; i < 200; i++)); do
    [ -s live.tacho.live/run.db ] && break
    sleep 0.05
done
"$TACHO" watch live --config watch.conf --interval 0.2 > out 2> err &
watcher=$!
for ((i = 0; i < 200; i++)); do
    grep -q '"code":"NAN"' alerts.jsonl 2> /dev/null && break
    sleep 0.1
done
"$TACHO" watch live --acknowledge NAN || fail "acknowledge: exit $?"
touch seen
wait $watcher || fail "watch: exit $?: $(cat err)"
wait $recorder
grep -q ' page NAN ' out || fail "no alert on the terminal: $(cat out err)"
grep -q '% good of' out || fail "no summary: $(cat out)"
[ -e responses ] && grep -qE '^NAN firing (29|30|31)$' responses || fail "response: $(cat responses err)"
[ ! -e dry ] || fail "more responses than the limit"
python3 - << 'PY' || fail "the log: $(cat alerts.jsonl)"
import json
rows = [json.loads(line) for line in open("alerts.jsonl")]
alerts = [row for row in rows if row["schema"] == "tacho-alert/1"]
nan = [row for row in alerts if row["code"] == "NAN"]
assert len(nan) == 1 and 29 <= nan[0]["since_step"] <= 31 and nan[0]["severity"] == "page" and nan[0]["cause"] == "NUMERICS", nan
assert any(row["code"] == "RUN_FAILED" and "exit 3" in row["text"] for row in alerts), alerts
responses = [row for row in rows if row["schema"] == "tacho-response/1"]
assert [row["run"] for row in responses] == [True, False] and "limit" in responses[1]["why"], responses
sent = [json.loads(line) for line in open("sent.jsonl") if line.strip()]
assert any(row["code"] == "NAN" for row in sent), sent
open("alerts.json", "w").writelines(json.dumps(alert) + "\n" for alert in alerts)
PY
as_schema alert alerts.json
grep -q "	NAN$" state/tacho/watch.seen || fail "what was acknowledged is not noted"

# the recording says the same, each time, and sends nothing
cp live.tacho before && rm -f sent.jsonl responses alerts.jsonl
"$TACHO" watch live.tacho --replay --json --config watch.conf > one.jsonl 2> err || fail "replay: exit $?: $(cat err)"
"$TACHO" watch live.tacho --replay --json --config watch.conf > two.jsonl 2> err || fail "replay: exit $?"
as_schema alert one.jsonl
cmp -s one.jsonl two.jsonl || fail "two replays differ"
grep -qE '"code":"NAN".*"since_step":(29|30|31)' one.jsonl || fail "replay: $(cat one.jsonl)"
[ ! -e sent.jsonl ] && [ ! -e responses ] && [ ! -e alerts.jsonl ] || fail "a replay sent something"
cmp -s live.tacho before || fail "the run was changed"

# what cannot be watched, and settings that are wrong
"$TACHO" watch live.tacho > out 2> err
[ $? = 2 ] && grep -q 'has ended' err && grep -q '^hint: --replay' err || fail "a run that is over: $(cat err)"
sqlite3 live.tacho "DELETE FROM step"
"$TACHO" watch live.tacho --replay > out 2> err
[ $? = 4 ] && grep -q 'no steps to watch' err || fail "a run without steps: $(cat err)"
for line in 'health.target = 2' 'colour = red' 'sink.webhook = https://example.org' 'broken'; do
    echo "$line" > bad.conf
    "$TACHO" watch before --replay --config bad.conf > out 2> err
    [ $? = 2 ] && grep -q '^tacho: bad.conf:1: ' err || fail "'$line': $(cat err)"
done
"$TACHO" watch nowhere.tacho --replay > out 2> err
[ $? = 3 ] || fail "a run that is not there: exit $?"
exit 0
