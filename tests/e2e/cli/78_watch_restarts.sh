#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# 'tacho watch' that is started again, stopped for a while, or whose clock is set while the run goes on: what is open is said once more, a gap is
# said, and nothing else; a run of an earlier boot is over. 'tacho run --watch' with a mail.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work_folder restarts
export XDG_STATE_HOME=$PWD/state XDG_CONFIG_HOME=$PWD/config PYTHONPATH=$SRC/profiler/python

# ---- a watch beside the run, and its mail -------------------------------------------------------------------------------------
cat > diverges.py << 'PY'
import os, sys, time
import tacho
tacho.step()
for step in range(40):
    time.sleep(0.01)
    tacho.counter("loss", float("nan") if step >= 30 else 2.0 + 0.01 * (step % 3))
    tacho.step()
print("the program")
for _ in range(200):
    if os.path.exists("mails"):
        break
    time.sleep(0.05)
sys.exit(3)
PY
cat > mailer << 'SH'
#!/bin/sh
{ printf '<%s>\n' "$@"; cat; } > mail.part && mv mail.part mails
SH
chmod +x mailer
printf 'sink.mail = you@example.org\nsink.mailer = ./mailer\nsilence = RUN_FAILED\nsilence = STEP_TIME\nsilence = BURN*\n' > mail.conf
"$TACHO" run --watch-config mail.conf --no-peak -o beside -- python3 diverges.py > run.out 2> run.err
[ $? = 3 ] || fail "run --watch: exit $?: $(cat run.err)"
[ "$(cat run.out)" = "the program" ] || fail "stdout is the program's: $(cat run.out)"
grep -q ' page NAN ' run.err || fail "no notice on stderr: $(cat run.err)"
! grep -q 'left the session' run.err || fail "the watch counts as a part of the run: $(cat run.err)"
[ "$(head -3 mails)" = "$(printf '<-s>\n<[tacho] firing page NAN>\n<you@example.org>')" ] || fail "the mail: $(cat mails)"
grep -q 'loss is not finite' mails && grep -q '^run: .*beside' mails && grep -q '^hint: ' mails || fail "the mail: $(cat mails)"
[ -f beside.tacho ] || fail "the run is not finished: $(ls)"
for line in 'sink.mail = -f@example.org' 'sink.mail = a@b, c@d'; do
    echo "$line" > bad.conf
    "$TACHO" run --watch-config bad.conf --no-peak -o bad -- touch ran > out 2> err
    [ $? = 125 ] && grep -q '^tacho: bad.conf:1: ' err && [ ! -e ran ] || fail "'$line': $(cat err)"
done

# ---- a watch that is started again ---------------------------------------------------------------------------------------------
cat > goes_on.py << 'PY'
import os, time
import tacho
step = 0
while not os.path.exists("stop"):
    time.sleep(0.02)
    tacho.counter("loss", float("nan") if step >= 30 else 2.0 + 0.01 * (step % 3))
    tacho.step()
    step += 1
PY
printf 'sink.log = alerts.jsonl\nsilence = STEP_TIME\nstep_time.target = off\ngoodput.target = off\nhealth.target = off\nloss_health.target = off\n' > watch.conf
"$TACHO" run --no-peak -o live -- python3 goes_on.py > run.log 2>&1 &
recorder=$!
watcher=''
trap 'kill $watcher 2> /dev/null; touch "$work/here/stop"; wait; cd /; chmod -R u+w "$work"; rm -rf "$work"' EXIT
for ((i = 0; i < 200; i++)); do [ -s live.tacho.live/run.db ] && break; sleep 0.05; done
count() { grep '"event":"firing"' alerts.jsonl 2> /dev/null | grep '"sent":true' | grep -c "\"code\":\"$1\""; }
await() { # CODE NUMBER
    local i
    for ((i = 0; i < 300; i++)); do [ "$(count "$1")" -ge "$2" ] && return; sleep 0.1; done
    fail "no notice $1: $(cat alerts.jsonl err 2> /dev/null)"
}
watch_live() { "$TACHO" watch live --config watch.conf --interval 0.2 --quiet > out 2> err & watcher=$!; }
watch_live
await NAN 1
kill -TERM $watcher
wait $watcher
watch_live
await NAN 2 # it is still so: the new watch says it once
sleep 1
[ "$(count NAN)" = 2 ] || fail "said again and again: $(cat alerts.jsonl)"

# ---- a watch that does not run for a while --------------------------------------------------------------------------------------
stopped=$SECONDS
kill -STOP $watcher
sleep 8
kill -CONT $watcher
await GAP 1
gap=$(grep '"code":"GAP"' alerts.jsonl | sed -n 's/.*no watch was running for \([0-9]*\).*/\1/p')
[ "$gap" -ge 7 ] && [ "$gap" -le $((SECONDS - stopped + 1)) ] || fail "the gap: $(grep GAP alerts.jsonl)"
kill -TERM $watcher
wait $watcher

# ---- a clock that is set --------------------------------------------------------------------------------------------------------
if [ -z "${SAN:-}" ]; then
    echo 0 > clock
    FAKE_CLOCK=$PWD/clock LD_PRELOAD=$BUILD/tests/fake/libfake_clock.so "$TACHO" watch live --config watch.conf --interval 0.2 --quiet > out 2> err &
    watcher=$!
    await NAN 3
    for seconds in 86400 -86400 3600; do
        echo $seconds > clock.part && mv clock.part clock
        sleep 0.8
    done
    kill -TERM $watcher
    wait $watcher
    python3 - << 'PY' || fail "a notice that no one asked for: $(grep "\"sent\":true" alerts.jsonl | grep -v -e "\"NAN\"" -e "\"GAP\"")"
import json, datetime
rows = [json.loads(line) for line in open("alerts.jsonl")]
assert len({row["code"] for row in rows if row["sent"]} - {"NAN", "GAP"}) == 0, [row["code"] for row in rows]
PY
fi
touch stop
wait $recorder

# ---- a run of an earlier boot: it is over, and nothing is sent -------------------------------------------------------------------
rm -f stop alerts.jsonl
"$TACHO" run --no-peak -o booted -- python3 goes_on.py > run.log 2>&1 &
recorder=$!
for ((i = 0; i < 200; i++)); do [ -s booted.tacho.live/run.db ] && break; sleep 0.05; done
sleep 1
kill -KILL $recorder
touch stop
wait $recorder 2> /dev/null
sleep 0.5
sqlite3 booted.tacho.live/run.db "UPDATE run SET value = 'of-another-boot' WHERE key = 'boot_id'" || fail "no boot id to change"
"$TACHO" watch booted --config watch.conf > out 2> err
[ $? = 2 ] && grep -q 'has ended' err || fail "a run of an earlier boot: $(cat out err)"
! grep -q '"sent":true' alerts.jsonl 2> /dev/null || fail "a notice of a run of an earlier boot: $(cat alerts.jsonl)"
exit 0
