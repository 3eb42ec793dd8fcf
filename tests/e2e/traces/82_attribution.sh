#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# Device time by operator, module, line and annotation of every shared Kineto trace against a brute-force script: exact to the ns.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
traces_for_script
check=$SRC/tests/e2e/traces/attribution_exact.py
all=()
for trace in "$traces"/*.json.gz; do
    name=$(basename "$trace")
    [ -f "$trace" ] || continue
    all+=("$trace")
    for by in op module line annotation; do
        "$TACHO" report "$trace" --json --by "$by" --top 100000 > "$name.$by" 2> err || fail "$name: report --by $by: $(cat err)"
        all+=("$name.$by")
    done
done
[ ${#all[@]} -ge 50 ] || fail "only $((${#all[@]} / 5)) traces in $traces"
python3 "$check" "${all[@]}" > out 2>&1 || fail "$(tail -n 20 out)"
cat out
[ "$(grep -c ' numbers compared, 0 differ' out)" = $((${#all[@]} / 5)) ] || fail "a trace was not compared"

# What is not in a trace is said, with what to do.
name=hta_ns_resolution_rank0.json.gz
for by in module line; do
    grep -q '"/attribution/[a-z_]*": ".*with_stack=True' $name.$by || fail "--by $by of a trace without frames does not say how to record them"
done
grep -q '"/utilization/mfu": ".*record_shapes=True' $name.op || fail "MFU without shapes does not say how to record them"
grep -q '"/roofline/points": ".*record_shapes=True' $name.op || fail "the roofline without shapes does not say how to record them"

# FLOPs of a model that is known: ResNet-50 at batch 32 forward and backward, from its layers (convolutions and the last matrix;
# no gradient of the first layer's input). A V100 runs fp32 without matrix units: the peak is the data sheet's 15.7 TFLOP/s.
python3 - kineto_tb_resnet50_num_workers_4_steps16-21_rank0.json.gz.op << 'END' || fail "FLOPs of ResNet-50"
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
u = json.load(open(sys.argv[1]))["utilization"]
want = resnet50(32)
print("FLOPs", u["model_flops_per_step"], "from the layers", want)
ok = u["model_flops_per_step"] == u["hardware_flops_per_step"] == want and u["flop_coverage_pct"] == 100
ok = ok and u["dtype"] == "fp32" and u["peak_flops"] == 15.7e12 and "datasheet" in u["peak_source"] and 0.3 < u["mfu"] < 0.5
sys.exit(not ok)
END

# Activation checkpointing: what runs again is hardware FLOPs only. ResNet-18 at batch 10, all but the first convolution.
python3 - tracelens_mi300_resnet_act_checkpoint_rank0.json.gz.op << 'END' || fail "FLOPs of what runs again"
import json, sys
u = json.load(open(sys.argv[1]))["utilization"]
first = 2 * 10 * 64 * 3 * 49 * 112 * 112
forward = 2 * 10 * (64 * 3 * 49 * 112 * 112 + 4 * 64 * 64 * 9 * 56 * 56
                    + sum(c * (c // 2) * 9 * s * s + 3 * c * c * 9 * s * s + c * (c // 2) * s * s for c, s in ((128, 28), (256, 14), (512, 7)))
                    + 512 * 1000)
print("model", u["model_flops_per_step"], 3 * forward - first, "again", u["hardware_flops_per_step"] - u["model_flops_per_step"], forward - first)
again = forward - first - 2 * 10 * 512 * 1000  # the last layer is not checkpointed
sys.exit(u["model_flops_per_step"] != 3 * forward - first or u["hardware_flops_per_step"] - u["model_flops_per_step"] not in (again, forward - first))
END

# An unknown device has no peak, and a peak of the user's is taken as given.
minitoy=hta_amd_mi250_minitoy_rank0.json.gz.op
grep -q '"/utilization/mfu": ".*--\(peak\|flops-per-step\)' $minitoy || fail "MFU of an unknown device gives no hint: $(grep utilization/mfu $minitoy)"

# The script must notice: each of these changes one number of a report; r holds those by operator, module, line and annotation.
trace=$traces/tracelens_mi300_resnet_act_checkpoint_rank0.json.gz
name=$(basename "$trace")
python3 "$check" --spoil "$trace" "$name".{op,module,line,annotation} \
    "a nanosecond" 'k = r[0]["attribution"]["rows"][0]; k["device_us"] = round(k["device_us"] + 0.001, 3)' \
    "a nanosecond that moves" 'k = r[1]["attribution"]["rows"]; k[0]["device_us"] = round(k[0]["device_us"] + 0.001, 3); k[1]["device_us"] = round(k[1]["device_us"] - 0.001, 3)' \
    "a kernel" 'r[2]["attribution"]["rows"][0]["kernels"] += 1' \
    "the rest" 'r[0]["attribution"]["unattributed_us"] += 1' > out 2>&1 || fail "$(tail -n 20 out)"
