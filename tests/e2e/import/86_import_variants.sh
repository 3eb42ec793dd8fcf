#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Files whose fields come in another order, in other units, or with less in them than usual, and texts behind a byte order mark.
set -u
# shellcheck source=tests/e2e/kit/import_common.sh
. "$(dirname "$0")/../kit/import_common.sh"
make_files variants.py
named="SELECT n.text, s.start - (SELECT min(start) FROM slice), dur FROM slice s JOIN string n ON n.id = s.name ORDER BY start"

# TensorBoard: the steps are those of one tag
import events.out.tfevents.1.mixed mixed.tacho
is "steps beside epochs" "$(rows_of mixed.tacho 'SELECT count(*), min("end" - start), max("end" - start), max("index") FROM step')" \
    299,1000000000,1000000000,300
is "all series" "$(rows_of mixed.tacho "SELECT t.name, count(*) FROM counter c JOIN track t ON t.id = c.track GROUP BY 1 ORDER BY 1" | tr '\n' ' ')" \
    'Loss/val,3 train/interval_loss,300 train/loss vs samples,300 '

# XLA: what the program marks are steps with their shares, also in the JSON
for form in xplane.pb trace.json; do
    "$TACHO" report "made/marked.$form" --json > report.json 2> err || fail "marked.$form: $(cat err)"
    is "the report of marked.$form" "$(python3 -c 'import json
r = json.load(open("report.json"))
print(r["steps"]["count"], r["steps"]["source"], r["budget"]["host_pct"], r["budget"]["unattributed_pct"], r["trust"]["tool"], sep=",")')" \
        '8,step_num (StepTraceAnnotation),88.8888888888889,11.1111111111111,XLA profiler (JAX, TensorFlow)'
done

# Chakra: times of day, exact; names with escapes; communication without a duration is a loss
import linked.json linked.tacho
is "starts that are times of day" "$(rows_of linked.tacho "$named" | tr '\n' ' ')" 'gemm a,0,50250 add é,5000000,50250 mul,9000000,50250 '
import day.et day.tacho
is "messages with times of day" "$(rows_of day.tacho "$named" | tr '\n' ' ')" 'gemm,0,100000 gemm,10000000,100000 '
is "communication of a simulator" "$(rows_of day.tacho "SELECT reason, count FROM loss")" 'node without a duration,1'

# pprof: samples by time alone, stacks shorter than the period, other orders of the fields
samples() { rows_of "$1" "SELECT count(*) FROM sample"; }
import wall.pb wall.tacho
is "times without a period" "$(samples wall.tacho) $(rows_of wall.tacho "SELECT value FROM run WHERE key = 'stacks.period_ns'")" '512 1000000'
import short.pb short.tacho
is "stacks shorter than the period" "$(samples short.tacho)" 30
for order in datadog go; do
    import $order.pb $order.tacho
    is "the order of $order" "$(samples $order.tacho)" 27
done
refused 4 locks.pb "a pprof profile of 'delay'"
refused 3 absurd.pb 'of more time or samples than a program has'
refused 4 gperftools.prof 'a CPU profile of gperftools'
refused 4 heap.prof 'a heap profile of gperftools'

# AMD: dispatches with names of their own, the table of rocprof-compute, names with escapes
import renamed_kernel_trace.csv renamed.tacho
is "renamed kernels" "$(rows_of renamed.tacho "$named" | tr '\n' ' ')" 'forward,0,500 backward,1000,500 '
import timestamps.csv dispatches.tacho
is "dispatches of rocprof-compute" "$(rows_of dispatches.tacho "SELECT n.text, t.device, count(*), sum(dur) FROM slice s
    JOIN string n ON n.id = s.name JOIN track t ON t.id = s.track GROUP BY 1")" 'copy(double*),gpu:2,3,1500'
import escapes.json escapes.tacho
is "a kernel with quotes" "$("$TACHO" sql escapes.tacho "SELECT text FROM string WHERE text LIKE 'gemm%'" --csv | tail -n +2 | tr -d '\r')" \
    '"gemm<""é"">"'

# Perfetto: a clock of all writers, an interned text, a clock that nobody told of
import two_clocks.pftrace clocks.tacho
is "a clock of all writers" "$(rows_of clocks.tacho "SELECT n.text, start, dur FROM slice s JOIN string n ON n.id = s.name")" mm,1000500,1000
is "an interned text" "$(rows_of clocks.tacho "SELECT json_extract(payload, '\$.stack') FROM detail WHERE payload LIKE '%stack%'")" forward
refused 4 unknown_clock.pftrace 'with an unknown clock'

refused 4 requests.json 'a trace of requests of the Triton Inference Server'
import inspector.log inspector.tacho
is "bytes with an exponent" "$(rows_of inspector.tacho "SELECT DISTINCT bytes FROM detail WHERE collective IS NOT NULL")" 1048576

# a byte order mark in front
import mark/kernel_details.csv mark.tacho
is "a table behind a mark" "$(rows_of mark.tacho "SELECT count(*), sum(dur) FROM slice")" 3,738820
import mark/nccl_trace_rank_0.json dump.tacho
is "a dump behind a mark" "$(rows_of dump.tacho "SELECT count(*) > 0 FROM slice")" 1
exit 0

# memory timelines of torch.profiler, in each form that it exports
for form in json json.gz raw.json.gz html; do
    refused 4 "memory.$form" 'a memory timeline of torch.profiler'
    grep -q '^hint: .*export_chrome_trace' err || fail "memory.$form: $(cat err)"
done
