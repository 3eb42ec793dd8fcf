#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Verdicts of real traces: every sentence agrees with the numbers of its report, gains keep the invariants, and what is known
# of a trace is said: softmax that reaches neither roof, ranks that wait, the start of a program.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
traces_for_script

made=()
# check NAME TRACE: makes the report of a trace, and advice for edits of the host alone where there is some
check() {
    local edit
    "$TACHO" report "$2" --json > "$1.json" 2> err || fail "$1: $(cat err)"
    for edit in launch=0,framework=0 framework=0; do # the first has a row for each of the two
        "$TACHO" advise "$2" --what-if $edit --json > "$1.$edit" 2> /dev/null && break
        rm "$1.$edit"
    done
    made+=("$1.json")
}
# every file of the folder, but for what is no trace or a part of one
for trace in "$traces"/* "$traces"/formats/*; do
    [ -f "$trace" ] || continue
    case $(basename "$trace") in
    README.md | expected.json) ;;
    straggler_meta-* | straggler_m[sw]-* | straggler_result-*) ;; # what others say of straggler_timeline-*
    xprof_tpu.xplane.pb.gz) ;;                                    # damaged: 79_import_formats.sh refuses it
    *.tar.gz) mkdir -p unpacked && tar xzf "$trace" -C unpacked ;;
    *.xplane.pb) check "$(basename "${trace%%.*}")_xplane" "$trace" ;; # beside the same as JSON
    *) check "$(basename "${trace%%.*}")" "$trace" ;;
    esac
done
# Archives: eight ranks of DLRM, without sequence numbers: collectives by their order, of which all end together; graphs of Chakra.
# Two ranks of a job that are also looked at one by one.
for folder in unpacked/dlrm_kineto unpacked/jsonData; do
    [ -d $folder ] && check "$(basename $folder)" $folder
done
mkdir both && cp "$traces"/hta_trace_filter_2ranks_rank[01].json.gz both/ 2> /dev/null && check both both
# the golden runs of each version of the schema
for dump in "$SRC"/tests/golden/schema_*.sql; do
    name=$(basename "$dump" .sql)
    python3 - "$dump" "$name.tacho" "$(sed -n 's/.*STORE_APPLICATION_ID *\(0x[0-9a-fA-F]*\).*/\1/p' "$SRC/store/store.h")" << 'END' ||
import re, sqlite3, sys
db = sqlite3.connect(sys.argv[2])
db.executescript(open(sys.argv[1]).read())
db.execute("PRAGMA application_id=%d" % int(sys.argv[3], 16))
db.execute("PRAGMA user_version=%s" % re.search(r"schema_(\d+)", sys.argv[1])[1])
db.close()
END
        fail "$name was not made"
    check "$name" "$name.tacho"
done
[ ${#made[@]} -ge 10 ] || fail "only ${#made[@]} traces in $traces"
python3 "$here/verdicts.py" "${made[@]}" > out 2>&1 || fail "$(tail -n 3 out)"
cat out

# says NAME WORDS: the report holds these words
says() {
    grep -q -- "$2" "$1.json" || fail "$1 does not say: $2"
}
says tracelens_h100_timesformer_rank0 'Kernels INEFFICIENT: 80.3 % of their time is in kernels that'
says tracelens_h100_timesformer_rank0 '"id": "FUSION"'
says tracelens_h100_timesformer_rank0 'pad the dimension 3137 to a multiple of 8 (3144)'
# the device is busy, and yet launches set the pace: halving compute gains nothing there
says kineto_tb_resnet50_num_workers_4_steps16-21_rank0 'of the critical path is on the device all the same'
# the first iterations of a program are named as such, steady ones are not
for name in hta_critical_path_alexnet_rank0 hta_critical_path_simple_add_rank0 hta_amd_mi250_minitoy_rank0; do
    says $name '"id": "FIRST_ITERATION"'
done
[ "$(grep -l '"id": "FIRST_ITERATION"' ./*.json | wc -l)" = 3 ] || fail "other traces are called a start of a program"
# the queue of launches never fills there
grep -l 'launch queue from filling' ./*.json && fail "advice on a queue that does not fill"

# What is transfer in DLRM follows from the files: the shortest kernel of each collective.
[ -f dlrm_kineto.json ] || { echo "${#made[@]} traces; none of DLRM"; exit 0; }
python3 - dlrm_kineto.json unpacked/dlrm_kineto/*.json << 'END' || fail "the ranks of DLRM"
import json, sys
report = json.load(open(sys.argv[1]))
ranks = [sorted((e["ts"], e["dur"]) for e in json.load(open(f))["traceEvents"] if e.get("cat") == "kernel" and "nccl" in e["name"])
         for f in sys.argv[2:]]
assert len(ranks) == 8 and {len(r) for r in ranks} == {8}
transfer = sum(min(r[k][1] for r in ranks) for k in range(8)) / 1e3
whole = sum(dur for r in ranks for _, dur in r) / 8e3
c = report["communication"]
assert abs(c["transfer_ms"] - transfer) < 0.02 * transfer, (c["transfer_ms"], transfer)
assert abs(c["transfer_ms"] + c["waiting_ms"] - whole) < 0.02 * whole, (c["waiting_ms"], whole)
f = [f for f in report["findings"] if f["id"] == "EXPOSED_COMM"][0]
assert "waits for other ranks" in f["claim"] and "overlap" not in f["action"], f
print("DLRM: %.3f of %.3f ms are transfer" % (transfer, whole))
END
echo "${#made[@]} traces"
