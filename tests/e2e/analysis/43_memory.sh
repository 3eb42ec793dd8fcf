#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Memory of real runs against the engine's own book; a program that keeps something every step and one that does not; what a program that
# counts nothing is told; the allocator's totals of a PyTorch trace against the trace itself.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
work_folder
export XDG_CACHE_HOME=$PWD/cache

"$TACHO" run -o run.tacho --overhead 0 --no-peak --no-counters -- "$TRAIN" gpt2-tiny --layers 2 --steps 16 --batch 4 --seq 32 --log-every 0 \
    --timers timers > log 2>&1 || { cat log; fail "the run failed"; }
"$TACHO" report run.tacho --json > run.json || fail "no report"
python3 - << 'PY' || fail "memory is not the engine's"
import json
m, own = json.load(open("run.json"))["memory"], json.load(open("timers"))["memory"]
tags = {t["name"]: t for t in m["tags"]}
assert m["peak_bytes"] == own["peak"] == m["rank_peak_bytes"], (m["peak_bytes"], own)
assert set(tags) >= {"parameters", "gradients", "optimizer", "activations"} and "total" not in tags and "peak" not in tags, tags
for name in ("parameters", "gradients", "optimizer", "activations"):
    assert tags[name]["current_bytes"] == tags[name]["peak_bytes"] == own[name] > 0, (tags[name], own)
assert sum(t["current_bytes"] for t in m["tags"]) == m["total_bytes"]
assert abs(sum(t["share_pct"] for t in m["tags"]) - 100) < 1e-6
assert m["batch_bytes"] == tags["activations"]["current_bytes"] + tags.get("workspace", {"current_bytes": 0})["current_bytes"]
assert m["room_bytes"] == m["capacity_bytes"] - max(m["peak_bytes"], m["resident_peak_bytes"] or 0) > 0
assert not m["growth"]["grows"] and m["growth"]["bytes_per_step"] == 0, m["growth"]
print("peak", m["peak_bytes"], "of", {k: v["peak_bytes"] for k, v in tags.items()})
PY
"$TACHO" report run.tacho --full > text || fail "no text"
grep -q '^Memory  *tracked, at most' text || fail "no memory in the text"
grep -q '^  by category .*optimizer' text || fail "no tags in the text"
grep -q '^Counters.*memory\.' text && fail "the counters of memory stand twice in the text"

# a control group's limit, found another way: the smallest of all that this script can see around itself
least=$(awk '/^MemTotal/ { printf "%.0f", $2 * 1024 }' /proc/meminfo) machine=$least
while IFS=: read -r _ list path; do
    case $list in
    '') root=/sys/fs/cgroup file=memory.max ;;
    memory) root=/sys/fs/cgroup/memory file=memory.limit_in_bytes ;;
    *) continue ;;
    esac
    while :; do
        value=$(cat "$root$path/$file" 2> /dev/null)
        case $value in
        '' | max) ;;
        *) awk -v a="$value" -v b="$least" 'BEGIN { exit !(a < b) }' && least=$value ;;
        esac
        case $path in
        '' | /) break ;;
        esac
        path=${path%/*}
    done
done < /proc/self/cgroup
[ "$least" = "$machine" ] && least=''
have=$("$TACHO" sql run.tacho "SELECT value FROM run WHERE key = 'memory.limit_bytes'" | grep -o '[0-9]*' | tail -n 1)
[ "$have" = "$least" ] || fail "memory.limit_bytes is '$have', the control groups allow '$least'"

# a program that keeps 1 MiB every second step, or nothing
nvtx=$(sed -n 's/^NVTX_CFLAGS := //p' "$BUILD/config.mk")
cat > leak.c << 'C'
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tacho_nvtx.h"
int main(int argc, char **argv)
{
    struct tacho_nvtx t;
    struct timespec pause = {0, 3000000};
    double held = 50 * 1048576.0;
    tacho_nvtx_open(&t, "leaky");
    uint64_t total = tacho_nvtx_counter(&t, "memory.total");
    for (uint64_t i = 0; i < 40; i++) {
        struct tacho_step s = {i, 10, 10};
        tacho_nvtx_push_step(&t, tacho_nvtx_name(&t, "step"), &s);
        nanosleep(&pause, NULL);
        if (argc > 1 && !strcmp(argv[1], "leak") && i % 2)
            held += 1048576;
        if (argc < 2 || strcmp(argv[1], "silent"))
            tacho_nvtx_sample(&t, total, held);
        tacho_nvtx_pop(&t);
    }
    return 0;
}
C
# shellcheck disable=SC2086 # CC may be several words, as in "ccache gcc"
$CC ${SAN:+-fsanitize=$SAN} -std=c11 -O1 -D_GNU_SOURCE -I"$SRC/include" $nvtx leak.c -o leak -ldl || fail "the program does not build"
for what in leak steady silent; do
    "$TACHO" run -o $what.tacho --overhead 0 --no-peak --no-counters -- ./leak $what > log 2>&1 || { cat log; fail "$what: the run failed"; }
    "$TACHO" report $what.tacho --json > $what.json || fail "$what: no report"
    "$TACHO" report $what.tacho --full > $what.text || fail "$what: no text"
done
python3 - << 'PY' || fail "growth"
import json
leak, steady, silent = (json.load(open(n + ".json")) for n in ("leak", "steady", "silent"))
g = leak["memory"]["growth"]
assert g["grows"] and 0 < g["low"] <= g["bytes_per_step"] <= g["high"], g
assert abs(g["bytes_per_step"] / 524288 - 1) < 0.05, g
assert not steady["memory"]["growth"]["grows"] and steady["memory"]["growth"]["bytes_per_step"] == 0, steady["memory"]["growth"]
assert silent["memory"] is None and "memory.TAG" in silent["absent"]["/memory"], silent["absent"]
PY
grep -q 'tracked memory grows by .* a step \[' leak.text || fail "the text does not say that memory grows"
grep -q 'grows' steady.text && fail "the text says that steady memory grows"

# PyTorch: the highest total of the allocator
traces=${TACHO_TRACES:-$SRC/../shared/traces}
trace=$traces/tracelens_h100_timesformer_rank0.json.gz
[ -f "$trace" ] || { echo "no shared traces: the allocator of PyTorch was not compared"; exit 0; }
"$TACHO" report "$trace" --json > torch.json || fail "no report of $trace"
python3 - "$trace" << 'PY' || fail "the allocator's totals"
import gzip, json, sys
m = json.load(open("torch.json"))["memory"]
want = {}
for e in json.load(gzip.open(sys.argv[1]))["traceEvents"]:
    a = e.get("args", {})
    if e.get("name") == "[memory]":
        key = "gpu:%d" % a["Device Id"] if a["Device Type"] else "cpu"
        for name in ("Allocated", "Reserved"):
            want.setdefault((name.lower(), key), []).append(a["Total " + name])
assert want
have = {(t["name"], t["device"]): t["peak_bytes"] for t in m["tags"]}
assert have == {k: max(v) for k, v in want.items()}, (have, {k: max(v) for k, v in want.items()})
assert m["peak_bytes"] == max(want["allocated", "gpu:0"])
PY
