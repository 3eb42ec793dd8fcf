#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Device time by operator, module, line and annotation of every shared Kineto trace against a brute-force script: exact to the ns.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
traces_for_script
check=$SRC/tests/e2e/traces/attribution_exact.py
compared=0
for trace in "$traces"/*.json.gz; do
    name=$(basename "$trace")
    [ -f "$trace" ] || continue
    for by in op module line annotation; do
        "$TACHO" report "$trace" --json --by "$by" --top 100000 > $by.json 2> err || fail "$name: report --by $by: $(cat err)"
    done
    python3 "$check" "$trace" op.json module.json line.json annotation.json > out 2>&1 || fail "$name: $(tail -n 20 out)"
    echo "$name: $(tail -n 1 out)"
    compared=$((compared + 1))
done
[ "$compared" -ge 10 ] || fail "only $compared traces in $traces"

# What is not in a trace is said, with what to do.
trace=$traces/hta_ns_resolution_rank0.json.gz
for by in module line; do
    "$TACHO" report "$trace" --json --by $by > $by.json || fail "report"
    grep -q '"/attribution/[a-z_]*": ".*with_stack=True' $by.json || fail "--by $by of a trace without frames does not say how to record them"
done
"$TACHO" report "$trace" --json > op.json || fail "report"
grep -q '"/utilization/mfu": ".*record_shapes=True' op.json || fail "MFU without shapes does not say how to record them"
grep -q '"/roofline/points": ".*record_shapes=True' op.json || fail "the roofline without shapes does not say how to record them"

# FLOPs of a model that is known: ResNet-50 at batch 32 forward and backward, from its layers (convolutions and the last matrix;
# no gradient of the first layer's input). A V100 runs fp32 without matrix units: the peak is the data sheet's 15.7 TFLOP/s.
trace=$traces/kineto_tb_resnet50_num_workers_4_steps16-21_rank0.json.gz
"$TACHO" report "$trace" --json > resnet.json || fail "report"
python3 - << 'END' || fail "FLOPs of ResNet-50"
import json, sys
def resnet50(n):
    macs, size, width = 0, 112, 64
    first = n * 64 * 3 * 49 * size * size
    size, inner = 56, 64
    for blocks, mid, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
        for b in range(blocks):
            s = stride if b == 0 else 1
            out = size // s
            macs += n * mid * width * size * size          # 1 x 1
            macs += n * mid * mid * 9 * out * out          # 3 x 3, has the stride
            macs += n * 4 * mid * mid * out * out          # 1 x 1
            if b == 0:
                macs += n * 4 * mid * width * out * out    # shortcut
            size, width = out, 4 * mid
    macs += n * 2048 * 1000
    return 2 * (3 * macs + 2 * first)
u = json.load(open("resnet.json"))["utilization"]
want = resnet50(32)
print("FLOPs", u["model_flops_per_step"], "from the layers", want)
ok = u["model_flops_per_step"] == u["hardware_flops_per_step"] == want and u["flop_coverage_pct"] == 100
ok = ok and u["dtype"] == "fp32" and u["peak_flops"] == 15.7e12 and "datasheet" in u["peak_source"] and 0.3 < u["mfu"] < 0.5
sys.exit(not ok)
END

# Activation checkpointing: what runs again is hardware FLOPs only. ResNet-18 at batch 10, all but the first convolution.
trace=$traces/tracelens_mi300_resnet_act_checkpoint_rank0.json.gz
"$TACHO" report "$trace" --json > again.json || fail "report"
python3 - << 'END' || fail "FLOPs of what runs again"
import json, sys
u = json.load(open("again.json"))["utilization"]
first = 2 * 10 * 64 * 3 * 49 * 112 * 112
forward = 2 * 10 * (64 * 3 * 49 * 112 * 112 + 4 * 64 * 64 * 9 * 56 * 56
                    + sum(c * (c // 2) * 9 * s * s + 3 * c * c * 9 * s * s + c * (c // 2) * s * s for c, s in ((128, 28), (256, 14), (512, 7)))
                    + 512 * 1000)
print("model", u["model_flops_per_step"], 3 * forward - first, "again", u["hardware_flops_per_step"] - u["model_flops_per_step"], forward - first)
again = forward - first - 2 * 10 * 512 * 1000  # the last layer is not checkpointed
sys.exit(u["model_flops_per_step"] != 3 * forward - first or u["hardware_flops_per_step"] - u["model_flops_per_step"] not in (again, forward - first))
END

# An unknown device has no peak, and a peak of the user's is taken as given.
trace=$traces/hta_amd_mi250_minitoy_rank0.json.gz
"$TACHO" report "$trace" --json > minitoy.json || fail "report"
grep -q '"/utilization/mfu": ".*--\(peak\|flops-per-step\)' minitoy.json || fail "MFU of an unknown device gives no hint: $(grep utilization/mfu minitoy.json)"

# The script must notice: each of these changes one number of the last reports.
spoil() { # WHAT FILE PYTHON: the statement changes r, the report
    cp "$2" kept && python3 - "$2" "$3" << 'END' || fail "could not spoil: $1"
import json, sys
r = json.load(open(sys.argv[1]))
exec(sys.argv[2])
json.dump(r, open(sys.argv[1], "w"))
END
    python3 "$check" "$trace" op.json module.json line.json annotation.json > out 2>&1 && fail "not noticed: $1"
    grep -q 'tacho\|rows and rest' out || fail "$1: the script died: $(tail -n 3 out)"
    mv kept "$2"
}
trace=$traces/tracelens_mi300_resnet_act_checkpoint_rank0.json.gz
for by in op module line annotation; do
    "$TACHO" report "$trace" --json --by "$by" --top 100000 > $by.json || fail "report"
done
spoil "a nanosecond" op.json 'k = r["attribution"]["rows"][0]; k["device_us"] = round(k["device_us"] + 0.001, 3)'
spoil "a nanosecond that moves" module.json 'k = r["attribution"]["rows"]; k[0]["device_us"] = round(k[0]["device_us"] + 0.001, 3); k[1]["device_us"] = round(k[1]["device_us"] - 0.001, 3)'
spoil "a kernel" line.json 'r["attribution"]["rows"][0]["kernels"] += 1'
spoil "the rest" op.json 'r["attribution"]["unattributed_us"] += 1'
