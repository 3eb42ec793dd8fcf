#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# A thousand simulated nodes with 8 ranks each in one Prometheus on loopback: all of them are scraped, the number of series is what
# docs/monitor-export.md says and below its bound; `tacho watch --fleet` reads the list that Prometheus reads.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
[ -z "${SAN:-}" ] || { echo "the bench is not built with sanitizers"; exit 77; }
for program in prometheus python3; do
    command -v $program > /dev/null || { echo "needs $program"; exit 77; }
done
nodes=1000
work_folder fleet
children=()
trap 'kill "${children[@]}" 2> /dev/null; wait 2> /dev/null; cd /; rm -rf "$work"' EXIT
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

mkdir pages
"$BUILD/tests/bench/fleet" $nodes pages > rows || fail "$(cat rows)"
cat rows
web=$(free_port) port=$(free_port)
python3 - $nodes "$web" > targets.json << 'PY'
import json, sys
print(json.dumps([{"targets": ["127.0.0.1:" + sys.argv[2]], "labels": {"__metrics_path__": "/node%05d/metrics" % i, "instance": "node%05d:9464" % i}}
                  for i in range(int(sys.argv[1]))]))
PY
cat > web.py << 'PY'
import functools, http.server, sys
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
Server(("127.0.0.1", int(sys.argv[1])), functools.partial(Quiet, directory="pages")).serve_forever()
PY
python3 web.py "$web" &
children+=($!)
for ((i = 0; i < 100; i++)); do python3 -c 'import sys, urllib.request as r; r.urlopen("http://127.0.0.1:%s/node00000/metrics" % sys.argv[1])' "$web" 2> /dev/null && break; sleep 0.1; done

# the same list, read by tacho
expect 0 "$TACHO" watch --fleet targets.json
head -n 1 "$work/out"
grep -q "^4 runs, $((8 * nodes)) ranks, $nodes of $nodes watches answer\$" "$work/out" || fail "$(tail -n 3 "$work/out")"

cat > prometheus.yml << 'FILE'
global: {scrape_interval: 20s}
scrape_configs: [{job_name: tacho, sample_limit: 5000, file_sd_configs: [{files: [targets.json]}]}]
FILE
prometheus --config.file=prometheus.yml --storage.tsdb.path=tsdb --web.listen-address="127.0.0.1:$port" > prometheus.log 2>&1 &
children+=($!)
ask() { # QUERY: the value of the first series
    python3 - "$port" "$1" << 'PY' 2> /dev/null
import json, sys, urllib.parse, urllib.request
url = "http://127.0.0.1:%s/api/v1/query?%s" % (sys.argv[1], urllib.parse.urlencode({"query": sys.argv[2]}))
result = json.load(urllib.request.urlopen(url, timeout=20))["data"]["result"]
print(result[0]["value"][1] if result else 0)
PY
}
for ((i = 0; i < 100; i++)); do [ "$(ask 'count(up == 1)')" = $nodes ] && break; sleep 1; done
[ "$(ask 'count(up == 1)')" = $nodes ] || fail "scraped: $(ask 'count(up == 1)') of $nodes; $(tail -n 3 prometheus.log)"
series=$(ask 'count({__name__=~"tacho_.*"})')
a_node=$(sed -n 's/^series a node, 8 ranks\t\([0-9]*\)\t.*/\1/p' rows)
[ "$series" = $((a_node * nodes)) ] && [ "$series" -le $((300 * nodes)) ] || fail "$series series, $a_node a node"
grep -q "\b$a_node series\b" "$SRC/docs/monitor-export.md" || fail "docs/monitor-export.md does not say $a_node series"
echo "$series series of $nodes nodes in one Prometheus, $((series / nodes)) a node; slowest scrape $(ask 'max(scrape_duration_seconds)') s"
[ "$(ask 'count(count by (run) (tacho_run_info))')" = 4 ] || fail "runs"
