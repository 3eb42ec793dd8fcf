#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# timeout: 300
# What a watch costs beside a run of 50 steps a second: share of a core, memory, how long a scrape takes, and the run's own steps.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
[ -z "${SAN:-}" ] || { echo "a sanitizer costs more than what is measured"; exit 77; }
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work_folder cost
export XDG_STATE_HOME=$PWD/state XDG_CONFIG_HOME=$PWD/config PYTHONPATH=$SRC/profiler/python
cat > train.py << 'PY'
import os, time, tacho
step = 0
while not os.path.exists("stop"):
    until = time.perf_counter() + 0.01
    while time.perf_counter() < until: # work
        pass
    time.sleep(0.01)
    tacho.counter("loss", 2.0 + 0.01 * (step % 3))
    tacho.step()
    step += 1
PY
"$TACHO" run --no-peak -o run -- python3 train.py > run.log 2>&1 &
trap 'kill $watcher 2> /dev/null; touch "$work/here/stop"; wait; cd /; rm -rf "$work"' EXIT
watcher=''
for ((i = 0; i < 200; i++)); do [ -s run.tacho.live/run.db ] && break; sleep 0.05; done
sleep 20 # without a watch
"$TACHO" watch --listen 127.0.0.1:0 --quiet run > watch.out 2> watch.err &
watcher=$!
for ((i = 0; i < 100; i++)); do
    at=$(sed -n 's|.*samples at http://\([^ ]*\)/metrics.*|\1|p' watch.err)
    [ -z "$at" ] || break
    sleep 0.1
done
[ -n "$at" ] || { grep -q 'built without libmicrohttpd' watch.err && { echo "built without libmicrohttpd"; exit 77; }; fail "$(cat watch.err)"; }
python3 - "$at" "$watcher" << 'PY' || fail "a watch costs too much"
import http.client, os, sqlite3, sys, time
at, pid = sys.argv[1], sys.argv[2]
tick = os.sysconf("SC_CLK_TCK")
def cpu():
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / tick
def steps(): # ms of each, with the end of each
    rows = sqlite3.connect("file:run.tacho.live/run.db?mode=ro", uri=True).execute('SELECT "end", "end" - start FROM step WHERE "end" IS NOT NULL')
    return [(end, took / 1e6) for end, took in rows]
time.sleep(3) # what was there is read
began, before, scrapes = time.monotonic_ns(), cpu(), []
for _ in range(40): # one a second; Prometheus takes one in 15
    time.sleep(1)
    start = time.perf_counter()
    connection = http.client.HTTPConnection(at, timeout=10)
    connection.request("GET", "/metrics")
    body = connection.getresponse().read()
    scrapes.append((time.perf_counter() - start) * 1e3)
    connection.close()
seconds = (time.monotonic_ns() - began) / 1e9
share = (cpu() - before) / seconds
memory = next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS")) / 1024
scrapes.sort()
rows = steps()
first = rows[0][0]
alone = sorted(took for end, took in rows if first + 2e9 < end < first + 18e9)
beside = sorted(took for end, took in rows if end > began)
median = lambda values: values[len(values) // 2]
print(f"watch: {100 * share:.2f} % of a core, {memory:.1f} MiB; scrape: median {median(scrapes):.1f} ms, longest {scrapes[-1]:.1f} ms, {len(body)} bytes; "
      f"step: {median(alone):.3f} ms alone, {median(beside):.3f} ms beside it")
quarter = lambda values, share: values[int(share * len(values))]
noise = quarter(alone, 0.75) - quarter(alone, 0.25)
sys.exit(not (share <= 0.005 and memory <= 20 and scrapes[int(0.95 * len(scrapes))] <= 20 and median(beside) - median(alone) <= noise))
PY
exit 0
