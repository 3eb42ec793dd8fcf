#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# An incident replayed against a real Prometheus and a real Alertmanager on loopback: a live run whose steps become slow and recover; `tacho watch`
# serves, its rules fire, one notice reaches the receiver behind Alertmanager, then its end.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
[ -z "${SAN:-}" ] || { echo "sanitizers are not loaded into python"; exit 77; }
for program in prometheus prometheus-alertmanager python3; do
    command -v $program > /dev/null || { echo "needs $program"; exit 77; }
done
work_folder prometheus
children=()
trap 'kill "${children[@]}" 2> /dev/null; wait 2> /dev/null; cd /; rm -rf "$work"' EXIT
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# steps of 20 ms; of 60 ms while the file "slow" is there
cat > train.py << 'PY'
import os, time, tacho
while not os.path.exists("stop"):
    time.sleep(0.06 if os.path.exists("slow") else 0.02)
    tacho.step()
PY
PYTHONPATH=$SRC/profiler/python "$TACHO" run -o run.tacho -- python3 train.py > run.log 2>&1 &
children+=($!)
for ((i = 0; i < 300; i++)); do [ -f run.tacho.live/run.db ] && break; sleep 0.1; done

# a period of 20 minutes: pages over windows of 4 and 10 s, which hold at least 4 scrapes
printf 'step_time.target = 95%%\nstep_time.period = 20m\nstep_time.threshold = 1.5x\n' > slo
"$TACHO" watch --config slo --listen 127.0.0.1:0 run.tacho > watch.out 2> watch.err &
watcher=$!
children+=("$watcher")
at=
for ((i = 0; i < 300; i++)); do
    at=$(sed -n 's|.*samples at http://\([^ ]*\)/metrics.*|\1|p' watch.err)
    [ -z "$at" ] || break
    sleep 0.1
done
[ -n "$at" ] || { grep -q 'built without libmicrohttpd' watch.err && { echo "built without libmicrohttpd"; exit 77; }; fail "$(cat watch.err)"; }
"$TACHO" watch --config slo --rules prometheus --scrape 1 > tacho.rules.yml || fail "no rules"

hook=$(free_port) prometheus=$(free_port) alertmanager=$(free_port)
cat > hook.py << 'PY'
import http.server, json, sys
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open("notices", "a") as out:
            for alert in body["alerts"]:
                print(alert["status"], alert["labels"]["alertname"], alert["labels"]["run"], alert["startsAt"], file=out, flush=True)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *arguments):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Hook).serve_forever()
PY
touch notices
python3 hook.py "$hook" &
children+=($!)
cat > alertmanager.yml << FILE
route: {receiver: hook, group_by: [run, alertname], group_wait: 1s, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: hook, webhook_configs: [{url: "http://127.0.0.1:$hook/", send_resolved: true}]}]
FILE
cat > prometheus.yml << FILE
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [tacho.rules.yml]
alerting: {alertmanagers: [{static_configs: [{targets: ["127.0.0.1:$alertmanager"]}]}]}
scrape_configs: [{job_name: tacho, static_configs: [{targets: ["$at"]}]}]
FILE
prometheus-alertmanager --config.file=alertmanager.yml --storage.path=am --web.listen-address="127.0.0.1:$alertmanager" --cluster.listen-address= > am.log 2>&1 &
children+=($!)
prometheus --config.file=prometheus.yml --storage.tsdb.path=tsdb --web.listen-address="127.0.0.1:$prometheus" > prometheus.log 2>&1 &
children+=($!)

query() { python3 -c 'import sys, urllib.request as r, urllib.parse as p; print(r.urlopen("http://127.0.0.1:%s/api/v1/%s" % (sys.argv[1], sys.argv[2]), timeout=10).read().decode())' "$prometheus" "$1" 2> /dev/null; }
notices() { grep -c "^$1 TachoStepTimeBurnFast run " notices; }
until_notices() { # STATE COUNT SECONDS
    local i
    for ((i = 0; i < 10 * $3; i++)); do
        [ "$(notices "$1")" -ge "$2" ] && return
        sleep 0.1
    done
    fail "no notice '$1' in $3 s: $(cat notices) $(query 'rules?type=alert' | head -c 1500) $(tail -3 prometheus.log)"
}
for ((i = 0; i < 200; i++)); do query 'query?query=tacho_sli_events_total' | grep -q '"slo":"step_time"' && break; sleep 0.1; done
sleep 15 # what the windows hold is good
[ "$(notices firing)" = 0 ] || fail "an alert before the incident: $(cat notices)"
touch slow
begun=$(date +%s)
until_notices firing 1 60
fired=$(date +%s)
sleep 5
rm slow
until_notices resolved 1 90
sleep 5
[ "$(notices firing)" = 1 ] && [ "$(notices resolved)" = 1 ] || fail "not one notice and its end: $(cat notices)"
echo "fired $((fired - begun)) s after the first slow step; one notice, resolved"
query 'query?query=scrape_duration_seconds' | python3 -c '
import json, sys
value = float(json.load(sys.stdin)["data"]["result"][0]["value"][1])
print("scrape: %.1f ms" % (1e3 * value))'
touch stop
wait "${children[0]}"
