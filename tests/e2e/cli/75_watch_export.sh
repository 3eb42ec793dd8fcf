#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Samples of a run that is watched: what promtool and the parser of Prometheus' own client say of them, served, as a textfile and as OTLP; who is
# refused; a fleet of two watches; nothing listens unless it is asked to.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work_folder export
[ -z "${SAN:-}" ] || { echo "sanitizers are not loaded into python"; exit 77; }
cat > train.py << 'PY'
import os, time, tacho
while not os.path.exists("stop"):
    time.sleep(0.02)
    tacho.step()
PY
(umask 077 && python3 -c 'import secrets; print(secrets.token_hex(32))' > token) || exit 1
token=$(cat token)

# a live run, served on a free port of loopback
served() { # LOG: its address
    local i
    for ((i = 0; i < 300; i++)); do
        sed -n 's|.*samples at \(http://[^ ]*\)/metrics.*|\1|p' "$1" | grep . && return
        sleep 0.1
    done
    return 1
}
PYTHONPATH=$SRC/profiler/python "$TACHO" run -o live.tacho -- python3 train.py > run.log 2>&1 &
recorder=$!
watcher='' other=''
trap 'kill $watcher $other 2> /dev/null; kill -KILL $(pgrep -P $recorder) $recorder 2> /dev/null; cd /; chmod -R u+w "$work"; rm -rf "$work"' EXIT
for ((i = 0; i < 300; i++)); do [ -f live.tacho.live/run.db ] && break; sleep 0.1; done
"$TACHO" watch --listen 127.0.0.1:0 --token-file token --textfile live.prom --otlp live.json live.tacho > watch.out 2> watch.err &
watcher=$!
if ! at=$(served watch.err); then
    grep -q 'built without libmicrohttpd' watch.err && { echo "built without libmicrohttpd"; exit 77; }
    fail "the watch does not serve: $(cat watch.err)"
fi
cat > ask.py << 'PY'
import sys, urllib.request, urllib.error
url, accept, host, token = sys.argv[1:5]
request = urllib.request.Request(url, headers={"Accept": accept})
if host:
    request.add_header("Host", host)
if token:
    request.add_header("Authorization", "Bearer " + token)
try:
    with urllib.request.urlopen(request, timeout=20) as answer:
        sys.stdout.write(answer.read().decode())
except urllib.error.HTTPError as error:
    print("status", error.code)
PY
ask() { python3 ask.py "$at/metrics" "${1:-text/plain}" "${2:-}" "${3-$token}"; }
for ((i = 0; i < 300; i++)); do ask > metrics; grep -q '^tacho_last_step_index{run="live"} [1-9]' metrics && break; sleep 0.1; done
grep -q '^tacho_last_step_index{run="live"} [1-9]' metrics || fail "no steps: $(cat metrics watch.err)"
[ "$(ask text/plain '' '')" = "status 401" ] || fail "no token is needed"
[ "$(ask text/plain evil.example)" = "status 421" ] || fail "a foreign name is accepted"
! grep -r "$token" watch.out watch.err metrics live.prom live.json "/proc/$watcher/cmdline" live.tacho.live/run.db > /dev/null || fail "the token was written"
if command -v promtool > /dev/null; then
    promtool check metrics < metrics > check 2>&1 || fail "$(cat check)"
    promtool check metrics < live.prom > check 2>&1 || fail "$(cat check)"
fi
for ((i = 0; i < 300; i++)); do # until steps are counted, some time after the first one was seen
    ask 'application/openmetrics-text; version=1.0.0' > openmetrics
    grep -q 'slo="step_time"' openmetrics && grep -q '# {file=' openmetrics && break
    sleep 0.1
done
for python in python3 /usr/bin/python3; do "$python" -c 'import prometheus_client' 2> /dev/null && break; done
if "$python" -c 'import prometheus_client' 2> /dev/null; then
    "$python" - << 'PY' || fail "OpenMetrics: $(cat openmetrics)"
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = {f.name: f for f in text_string_to_metric_families(open("openmetrics").read())}
assert families["tacho_step_time_seconds"].unit == "seconds" and families["tacho_step_time_seconds"].type == "histogram"
pointers = [s.exemplar for s in families["tacho_step_time_seconds"].samples if s.exemplar]
assert pointers and all(p.labels["file"] == "live.tacho" for p in pointers), pointers
first, last = map(int, pointers[0].labels["steps"].split("-"))
assert 0 <= first <= last
assert families["tacho_watch_memory_bytes"].samples[0].value > 0
slos = {s.labels["slo"] for s in families["tacho_sli_events"].samples}
assert "step_time" in slos, slos
PY
fi

# a fleet: the live watch, a node that is not there
(umask 077 && printf '%s\n127.0.0.1:1\n' "${at#http://}" > nodes)
expect 0 "$TACHO" watch --fleet nodes --token-file token
grep -q '^1 run, .* 1 of 2 watches answer' "$work/out" && grep -q '^live  *1 ' "$work/out" && grep -q '^silent  http://127.0.0.1:1/metrics: ' "$work/out" || fail "$(cat "$work/out")"
expect 3 "$TACHO" watch --fleet no-such-list
expect 0 "$TACHO" top --fleet nodes --token-file token --batch -n 2 --interval 0.1
[ "$(grep -c '^live  *1 ' "$work/out")" = 2 ] || fail "top --fleet: $(cat "$work/out")"
expect 2 "$TACHO" top --fleet nodes --json
python3 - << 'PY' || fail "top --fleet on a terminal"
import fcntl, os, pty, select, struct, termios, time
pid, terminal = pty.fork()
if not pid:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 4, 60, 0, 0))
    os.execv(os.environ["TACHO"], ["tacho", "top", "--fleet", "nodes", "--token-file", "token", "--interval", "0.2"])
shown, until = b"", time.time() + 30
def read_more():
    global shown
    if select.select([terminal], [], [], 0.1)[0]:
        shown += os.read(terminal, 65536)
while shown.count(b"q ends") < 2 and time.time() < until:
    read_more()
os.write(terminal, b"q")
while time.time() < until:
    try:
        read_more()
    except OSError: # the other end is closed
        break
status = os.waitpid(pid, 0)[1]
assert status == 0, status
assert shown.count(b"q ends") >= 2 and b"live" in shown and b"more lines" in shown, shown
assert shown.startswith(b"\x1b[?1049h") and shown.endswith(b"\x1b[?1049l"), shown[-80:]
PY
# what many clients that never end their requests leave of it: a scrape comes through, and its memory is bounded
python3 - "${at#http://}" << 'PY' || fail "the run stands still while there are many clients"
import resource, socket, sqlite3, sys, time
def steps():
    return sqlite3.connect("file:live.tacho.live/run.db?mode=ro", uri=True).execute("SELECT count(*) FROM step").fetchone()[0]
host, port = sys.argv[1].rsplit(":", 1)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1200), hard))
clients = []
for _ in range(min(hard, 1200) - 100):
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex((host, int(port)))
    clients.append(client)
    try:
        client.send(b"GET /metrics HTTP/1.1\r\nHost: loc")
    except OSError:
        pass
assert len(clients) >= 1000 or hard < 1200, len(clients)
before = steps()
for _ in range(50):
    time.sleep(0.2)
    if steps() >= before + 20:
        break
assert steps() >= before + 20, (before, steps())
PY
for ((i = 0; i < 60; i++)); do ask > metrics 2> /dev/null; grep -q '^tacho_watch_memory_bytes ' metrics && break; sleep 0.5; done
memory=$(sed -n 's/^tacho_watch_memory_bytes \([0-9]*\).*/\1/p' metrics)
[ -n "$memory" ] || fail "no scrape after a thousand slow clients: $(head -c 300 metrics)"
echo "memory of the watch: $((memory / 1024)) KiB"
[ "$memory" -le $((20 << 20)) ] || fail "the watch takes $memory bytes"

# nothing listens unless asked; what is refused at the start
"$TACHO" watch live.tacho > other.out 2> other.err &
other=$!
sleep 1
[ -d "/proc/$other" ] || fail "the other watch ended: $(cat other.err)"
[ -z "$(find "/proc/$other/fd" -lname 'socket:*' 2> /dev/null)" ] || fail "a watch that is not asked to has a socket"
kill "$other"
wait "$other" 2> /dev/null
expect 2 "$TACHO" watch --listen 0.0.0.0:0 live.tacho
grep -q 'token' "$work/err" || fail "$(cat "$work/err")"
cp token open && chmod 644 open
expect 4 "$TACHO" watch --listen 127.0.0.1:0 --token-file open live.tacho
! grep -q "$token" "$work/err" || fail "the token was printed"
expect 2 "$TACHO" watch --textfile live.txt live.tacho

# the run ends: so does the watch, whose last samples say so, and which leaves no textfile for node_exporter to go on with
touch stop
wait $recorder || fail "the run failed: $(cat run.log)"
for ((i = 0; i < 300; i++)); do [ -d "/proc/$watcher" ] || break; sleep 0.1; done
[ ! -d "/proc/$watcher" ] || fail "the watch goes on"
wait "$watcher"
watcher=
[ ! -e live.prom ] || fail "the textfile outlives the watch"
python3 - << 'PY' || fail "OTLP: $(tail -n 1 live.json | head -c 600)"
import json
lines = open("live.json").readlines()
(resource,) = json.loads(lines[-1])["resourceMetrics"]
metrics = {m["name"]: m for m in resource["scopeMetrics"][0]["metrics"]}
steps = metrics["tacho_steps"]["sum"]
assert steps["isMonotonic"] and steps["aggregationTemporality"] == 2 and steps["dataPoints"][0]["asDouble"] > 0
ended = metrics["tacho_run_ended"]["gauge"]["dataPoints"][0]
assert ended["asDouble"] == 1 and {"key": "run", "value": {"stringValue": "live"}} in ended["attributes"], ended
first = json.loads(lines[0])["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
assert {m["name"]: m for m in first}["tacho_run_ended"]["gauge"]["dataPoints"][0]["asDouble"] == 0
PY
