#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# 'tacho watch --rules': promtool accepts the rule file, and an incident fires and resolves at the minutes that the arithmetic of burn rates
# gives; documents for Sloth and OpenSLO are YAML with all objectives; queries of the dashboard are queries, of families that exist.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v promtool > /dev/null || { echo "needs promtool (package prometheus)"; exit 77; }
work_folder rules

# an objective of 99 % over 30 days: pages at 14.4 over 1 h and 5 min, 6 over 6 h and 30 min
cat > slo << 'FILE'
step_time.target = 99%
step_time.period = 30d
goodput.target = off
health.target = off
checkpoint_age.target = off
data_wait.target = off
mfu.target = off
loss_health.target = off
stragglers.target = off
FILE
expect 0 "$TACHO" watch --rules prometheus --config slo
cp "$work/out" tacho.rules.yml
expect 0 "$TACHO" watch --rules prometheus
cp "$work/out" all.rules.yml
[ "$(grep -c 'alert: Tacho.*BurnFast' tacho.rules.yml all.rules.yml | tr '\n' ' ')" = 'tacho.rules.yml:1 all.rules.yml:8 ' ] || fail "objectives: $(grep alert: all.rules.yml)"

# Ten hours without a bad step, then each step is bad for 20 minutes: 60 steps a minute, a sample a minute. After n bad minutes their share of
# the last hour is n/60, above 14.4 * 0.01 from the 9th on, and that of the last 5 minutes min(n, 5)/5. m minutes after the end the share of
# the last 5 is (5 - m)/5: above 0.144 up to the 4th. The share of the last 6 hours stays below 20/360 < 6 * 0.01.
cat > test.yml << 'FILE'
rule_files: [tacho.rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'tacho_sli_events_total{run="r",slo="step_time",instance="a"}'
        values: '0+60x800'
      - series: 'tacho_sli_bad_events_total{run="r",slo="step_time",instance="a"}'
        values: '0+0x600 60+60x19 1200+0x180'
      # a second run of the same nodes, never bad
      - series: 'tacho_sli_events_total{run="good",slo="step_time",instance="a"}'
        values: '0+60x800'
      - series: 'tacho_sli_bad_events_total{run="good",slo="step_time",instance="a"}'
        values: '0+0x800'
    alert_rule_test:
FILE
alert() { # MINUTE [firing]
    printf '      - {eval_time: %sm, alertname: TachoStepTimeBurnFast, exp_alerts: [' "$1"
    [ $# = 1 ] || printf '{exp_labels: {run: r, slo: step_time, severity: page}, exp_annotations: {summary: "run r uses up the error budget of step_time", description: "%s of its events are bad; 99 %% have to be good over 30d (share of steps that took at most the threshold)"}}' "$2"
    echo ']}'
}
{
    alert 599
    alert 608
    alert 609 15%
    alert 620 33.33%
    alert 624 33.33%
    alert 625
    alert 700
} >> test.yml
# stalls, silent ranks, silent watches; a watch whose run has ended is not missed
cat > progress.yml << 'FILE'
rule_files: [tacho.rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'tacho_stalled{run="r",instance="a"}', values: '0x9 1x4 0x20'}
      - {series: 'tacho_progress_bound_seconds{run="r",instance="a"}', values: '60x40'}
      - {series: 'tacho_rank_progress_age_seconds{run="r",rank="3",instance="a"}', values: '1x19 90x5 1x10'}
      - {series: 'tacho_rank_progress_age_seconds{run="r",rank="4",instance="a"}', values: '1x40'}
      - {series: 'tacho_run_ended{run="gone",instance="b"}', values: '0x10 stale'}
      - {series: 'tacho_run_ended{run="over",instance="c"}', values: '0x9 1 stale'}
    alert_rule_test:
      - {eval_time: 9m, alertname: TachoStalled, exp_alerts: []}
      - {eval_time: 10m, alertname: TachoStalled, exp_alerts: [{exp_labels: {run: r, severity: page}, exp_annotations: {summary: run r makes no progress}}]}
      - {eval_time: 15m, alertname: TachoStalled, exp_alerts: []}
      - {eval_time: 19m, alertname: TachoRankSilent, exp_alerts: []}
      - {eval_time: 20m, alertname: TachoRankSilent, exp_alerts: [{exp_labels: {run: r, rank: 3, instance: a, severity: page}, exp_annotations: {summary: rank 3 of run r completes no steps while others do}}]}
      - {eval_time: 26m, alertname: TachoRankSilent, exp_alerts: []}
      - {eval_time: 12m, alertname: TachoWatchSilent, exp_alerts: []}
      - {eval_time: 14m, alertname: TachoWatchSilent, exp_alerts: [{exp_labels: {run: gone, instance: b, severity: ticket}, exp_annotations: {summary: "nothing is heard of run gone on b, which had not ended"}}]}
FILE
promtool test rules test.yml progress.yml > check 2>&1 || fail "$(cat check)"

# a period without a window that Prometheus could look at is refused, as is a format that is none
printf 'step_time.period = 60s\n' > none
expect 2 "$TACHO" watch --rules prometheus --config none
grep -q 'step_time' "$work/err" && grep -q '^hint: ' "$work/err" || fail "$(cat "$work/err")"
expect 2 "$TACHO" watch --rules pyrra

# examples in share/: configurations are read by the programs that they are for, queries of the dashboard by promtool
mkdir examples && cp "$SRC"/share/prometheus/*.yml tacho.rules.yml examples/ && echo '[]' > examples/targets.json
promtool check config examples/prometheus.yml > check 2>&1 || fail "$(cat check)"
! command -v amtool > /dev/null || amtool check-config examples/alertmanager.yml > check 2>&1 || fail "$(cat check)"
python3 - "$SRC" << 'PY' || fail "dashboard"
import json, re, sys
src = sys.argv[1]
families = set(re.findall(r'"(tacho_\w+)"', open(src + "/monitor/export/metric.h").read()))
assert len(families) > 30, families
board = json.load(open(src + "/share/grafana/tacho.json"))
rules, seen, ids = [], set(), set()
for panel in board["panels"]:
    assert panel["id"] not in ids and set(panel["gridPos"]) == {"x", "y", "w", "h"} and panel["targets"], panel
    assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    ids.add(panel["id"])
    for target in panel["targets"]:
        query = target["expr"].replace("$__rate_interval", "1m").replace("$run", ".*")
        assert "$" not in query, query
        for name in re.findall(r"tacho_\w+", query):
            base = re.sub(r"_(total|bucket|info)$", "", name)
            assert base in families, name
            seen.add(base)
        rules.append({"record": "q:%d" % len(rules), "expr": query})
assert len(seen) >= 15, seen
json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, open("dashboard.yml", "w"))
PY
promtool check rules tacho.rules.yml all.rules.yml dashboard.yml > check 2>&1 || fail "$(cat check)"

if command -v systemd-analyze > /dev/null; then
    sed 's|/usr/local/bin/tacho|/bin/true|' "$SRC/share/systemd/tacho-watch@.service" > tacho-watch@run.service
    systemd-analyze verify --man=no ./tacho-watch@run.service > check 2>&1
    ! grep -q 'tacho-watch@' check || fail "$(cat check)"
fi
# the prolog of a job starts a watch where it is asked to, the epilog ends it and removes its samples
mkdir bin texts && printf '#!/bin/sh\necho "$@" > "%s/started"\ntouch "$3"\nwhile :; do sleep 0.1; done\n' "$PWD" > bin/tacho && chmod +x bin/tacho
job() { PATH=$PWD/bin:$PATH TACHO_TEXTFILES=$PWD/texts SLURM_JOB_ID=7 "$@"; }
job "$SRC/share/slurm/prolog.sh" > printed || fail "prolog: exit $?"
[ ! -e started ] && [ ! -s printed ] || fail "a watch that nobody asked for"
TACHO_WATCH=/scratch/run.tacho job "$SRC/share/slurm/prolog.sh" > printed || fail "prolog: exit $?"
for ((i = 0; i < 100; i++)); do [ -e texts/tacho-job-7.prom ] && [ -s texts/tacho-job-7.pid ] && break; sleep 0.1; done
[ "$(cat started)" = "watch --textfile $PWD/texts/tacho-job-7.prom /scratch/run.tacho" ] || fail "started: $(cat started)"
[ ! -s printed ] || fail "Slurm would read: $(cat printed)"
watch=$(cat texts/tacho-job-7.pid)
[ -d "/proc/$watch" ] || fail "the watch is not the process that is noted"
job "$SRC/share/slurm/epilog.sh" || fail "epilog: exit $?"
for ((i = 0; i < 100; i++)); do [ -d "/proc/$watch" ] || break; sleep 0.1; done
[ ! -d "/proc/$watch" ] && [ -z "$(ls texts)" ] || fail "the epilog leaves $(ls texts), process $watch"
# a note that is no file does not hold up the epilog, which runs as root; a process of another user goes on
mkfifo texts/tacho-job-7.pid
job timeout 10 "$SRC/share/slurm/epilog.sh" || fail "epilog with a pipe: exit $?"
bin/tacho watch --textfile "$PWD/other" > /dev/null &
for ((i = 0; i < 100; i++)); do [ "$(cat "/proc/$!/comm")" = tacho ] && break; sleep 0.1; done
echo "$!" > texts/tacho-job-7.pid
SLURM_JOB_UID=$(($(id -u) + 1)) job "$SRC/share/slurm/epilog.sh" || fail "epilog: exit $?"
[ -d "/proc/$!" ] && [ "$(cut -d ' ' -f 3 "/proc/$!/stat")" != Z ] || fail "the epilog has ended a process of another user"
kill "$!"

python3 -c 'import yaml' 2> /dev/null || { echo "python3 has no yaml: the other formats were not read"; exit 0; }
for format in sloth openslo; do
    expect 0 "$TACHO" watch --rules $format
    cp "$work/out" $format.yml
done
python3 - "$SRC" << 'PY' || fail "documents"
import sys, yaml
sloth = yaml.safe_load(open("sloth.yml"))
assert sloth["version"] == "prometheus/v1" and len(sloth["slos"]) == 8
for slo in sloth["slos"]:
    assert 0 < slo["objective"] < 100 and "{{.window}}" in slo["sli"]["events"]["error_query"]
documents = [d for d in yaml.safe_load_all(open("openslo.yml")) if d]
names = {(d["kind"], d["metadata"]["name"]) for d in documents}
assert len(names) == len(documents), "a name twice"
for d in documents:
    assert d["apiVersion"] == "openslo/v1"
    if d["kind"] == "SLO":
        assert all(("AlertPolicy", p) in names for p in d["spec"]["alertPolicies"]) and d["spec"]["alertPolicies"]
        assert 0 < d["spec"]["objectives"][0]["target"] < 1
    if d["kind"] == "AlertPolicy":
        assert all(("AlertCondition", c["conditionRef"]) in names for c in d["spec"]["conditions"])
pod = yaml.safe_load(open(sys.argv[1] + "/share/kubernetes/daemonset.yaml"))
assert pod["kind"] == "DaemonSet" and pod["spec"]["selector"]["matchLabels"].items() <= pod["spec"]["template"]["metadata"]["labels"].items()
PY
