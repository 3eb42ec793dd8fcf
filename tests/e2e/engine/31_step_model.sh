#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The model of a step on a GPU (tests/gpu/step_model.c): it launches what the engine launches, has the FLOPs of the closed forms, and its
# answers are those of docs/gpu-model.md (BLESS=1 writes them there anew).
set -u
case ${SAN:-} in *thread*) echo "fibers are no threads to this sanitizer"; exit 77 ;; esac
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
cd "$TMPDIR" || exit 1
fail=0
bad() {
    echo "FAIL: $*"
    fail=1
}
model=$BUILD/tests/gpu/step_model
export LT_CUDA_LIBRARY=$BUILD/tests/cuda/libtrain_cuda.so LT_CUBLASLT=$BUILD/tests/cuda/libcublasLt.so.13
seq 1 2000 | sed 's/$/ is a number of many digits/' > text

# the kernels of a step: those of three steps less those of one, so that what a run does once is in neither; the third is a captured one
for steps in 1 3; do
    SHIM_LAUNCHES=launches.$steps "$TRAIN" gpt2-tiny --data text --batch 1 --seq 32 --workers 0 --device cuda --dtype bf16 --steps $steps \
        > train.out 2>&1 || bad "train: $(tail -2 train.out)"
done
join -a 2 launches.1 launches.3 | awk '{ n = NF == 3 ? $3 - $2 : $2; if (n) print $1, n / 2 }' | sort > ran
"$model" gpt2-tiny H100 1 32 --launches | sort > modelled
[ -s ran ] || bad "nothing ran"
diff ran modelled > differ || bad "the engine launches other kernels (<) than the model (>): $(cat differ)"

# FLOPs of the model, and of all products, by docs/engine.md
"$model" gpt2-1558M H200 8 1024 --json > large.json || bad "no JSON"
python3 - << 'END' || bad "FLOPs"
import json
j = json.load(open("large.json"))
layers, c, v, n, t = 48, 1600, 50304, 8 * 1024, 1024
weights = 12 * layers * c * c + v * c
products = sum(k["flops"] for k in j["kernels"] if k["name"] == "matmul")
assert products == 6 * weights * n, (products, 6 * weights * n)
assert j["model_flops"] == 6 * weights * n + 6 * layers * c * (t + 1) * n, j["model_flops"]
assert abs(sum(k["ms"] for k in j["kernels"]) - j["step_ms"]) < 1e-3 * j["step_ms"]
assert all(k["bytes"] / 4.8e12 < 1e-3 * k["ms"] for k in j["kernels"]), "faster than the memory"
assert products / 989.5e12 < sum(k["ms"] for k in j["kernels"] if k["name"] == "matmul") / 1e3, "faster than the peak"
END
"$model" gpt2-124M nothing > out 2>&1
[ $? = 2 ] && grep -q 'no such device' out || bad "an unknown device: $(cat out)"
"$model" gpt2-124M H100 0 > out 2>&1
[ $? = 2 ] && grep -q '^usage' out || bad "an impossible batch: $(cat out)"

# the page: a block for each command in it
page=$SRC/docs/gpu-model.md
awk -v model="$model" '/^\$ build\/tests\/gpu\/step_model / { command = $0; sub(/^\$ build\/tests\/gpu\/step_model/, model, command); print; system(command)
    skip = 1; next } /^```$/ { skip = 0 } !skip' "$page" > page.md
[ -z "${BLESS:-}" ] || cp page.md "$page"
diff "$page" page.md > differ || bad "docs/gpu-model.md (<) has other answers than the program (>): $(head -20 differ)"
[ "$(grep -c '^\$ build' "$page")" = 4 ] || bad "the page has other commands"
exit $fail
