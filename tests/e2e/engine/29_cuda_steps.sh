#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# train --device cuda on the substitute runtime (tests/gpu/shim): five steps of gpt2-tiny are those of the reference backend, a captured
# step prints what a launched one prints, checkpoints change sides, and what cannot be done is said.
set -u
case ${SAN:-} in *thread*) echo "fibers are no threads to this sanitizer"; exit 77 ;; esac
cd "$TMPDIR" || exit 1
fail=0
bad() {
    echo "FAIL: $*"
    fail=1
}
export OMP_NUM_THREADS=1 # the teams of the substitute's products and of the processor's steps wait for each other longer than they compute
export LT_CUDA_LIBRARY=$BUILD/tests/cuda/libtrain_cuda.so LT_CUBLASLT=$BUILD/tests/cuda/libcublasLt.so.13
seq 1 9000 | sed 's/$/ is a number of many digits/' > text
run() { # run NAME OPTION...
    local out=$1
    shift
    "$TRAIN" gpt2-tiny --data text --batch 1 --seq 32 --log-every 1 --workers 0 "$@" > "$out" 2>&1
}
lines() { sed -n 's/^step *\([0-9]*\).* loss \([0-9.]*\)  norm \([0-9.]*\).*/\1 \2 \3/p' "$1"; }
# near NAME NAME BOUND: the same steps, and loss and norm apart by at most BOUND of themselves
near() {
    paste <(lines "$1") <(lines "$2") | awk -v bound="$3" '
    function apart(a, b) { return (a > b ? a - b : b - a) / b }
    { for (i = 2; i <= 3; i++) { d = apart($i, $(i + 3)); if (d > most) most = d } if ($1 != $4 || NF != 6) bad = 1; n++ }
    END { printf "%d steps, apart by %.2g at most\n", n, most; exit bad || n != 5 || most > bound }'
}
for dtype in fp32 bf16; do
    run "graph.$dtype" --device cuda --dtype $dtype --steps 5 || bad "$dtype on cuda: $(tail -2 "graph.$dtype")"
    run "reference.$dtype" --backend reference --dtype $dtype --steps 5 || bad "$dtype of the reference"
done
run eager --device cuda --dtype bf16 --steps 5 --no-graph || bad "without a graph"
cmp -s <(lines graph.bf16) <(lines eager) || bad "a captured step differs from a launched one"
# without epilogues, because the library has none or because they are not wanted
SHIM_EPILOGUES=none SHIM_LAUNCHES=passes run plain --device cuda --dtype bf16 --steps 5 || bad "without epilogues: $(tail -2 plain)"
LT_CUDA_EPILOGUES=off run off --device cuda --dtype bf16 --steps 5 || bad "with epilogues off: $(tail -2 off)"
cmp -s <(lines plain) <(lines off) || bad "epilogues that are missing are not those that are off"
grep -q '^gelu_din 20$' passes && grep -q '^bias_add 80$' passes || bad "not made in passes: $(cat passes)"
near plain reference.bf16 5e-3 || bad "bf16 without epilogues differs from the reference"
grep -q '^.*fp32, cuda (Substitute GPU' graph.fp32 || bad "the device is not named"
# fp32 sums in another order: a unit of the last digit that is printed; bf16 rounds products before their bias is added
near graph.fp32 reference.fp32 2e-4 || bad "fp32 differs from the reference"
near graph.bf16 reference.bf16 5e-3 || bad "bf16 differs from the reference"

# two steps on the device, three more on the processor
run first --device cuda --steps 2 --warmup 0 --schedule constant --checkpoint c || bad "no checkpoint"
run second --steps 5 --warmup 0 --schedule constant --resume c || bad "the processor does not go on: $(tail -2 second)"
run whole --steps 5 --warmup 0 --schedule constant || bad "the processor alone"
cat first second > both
near both whole 2e-4 || bad "the run that changed sides is another one"
run looked --device cuda --steps 1 --eval-every 1 --eval-batches 1 || bad "with an evaluation"
grep -q '^evaluation after step 0  loss [0-9]' looked || bad "no evaluation"
# a learning rate that is raised on purpose, and a loss that is not finite because of it: both sides say so of the same step
for side in "--device cuda" "--backend cpu"; do
    # shellcheck disable=SC2086  # an option and its value
    run raised $side --steps 8 --inject rate=2:1e30
    [ $? = 2 ] && sed -n 's/^train: //p' raised | head -1
done > ends
[ "$(wc -l < ends)" = 2 ] && grep -q "is not finite" ends || bad "a rate of 1e30: $(cat ends) $(tail -3 raised)"

# refuse WHAT WORDS OPTION...: exit status 4, and the words
refuse() {
    local what=$1 words=$2
    shift 2
    "$TRAIN" "$@" --data text --steps 1 --workers 0 > refused 2>&1
    [ $? = 4 ] && grep -q "$words" refused || bad "$what: $(cat refused)"
}
refuse "an optimizer" "no such optimizer" gpt2-tiny --device cuda --optimizer lion
refuse "fp16" "no fp16" gpt2-tiny --device cuda --dtype fp16
refuse "a watch" "watch looks at values" gpt2-tiny --device cuda --watch 1
refuse "a fault" "inject nan or inf looks at values" gpt2-tiny --device cuda --inject nan=0:0:gelu.forward
refuse "another model" "not for a device" llama-tiny --device cuda
refuse "heads" "heads of 20 channels" gpt2-tiny --device cuda --channels 80 --heads 4
SHIM_NO_DEVICE=1 refuse "no device" "no device: no CUDA-capable device" gpt2-tiny --device cuda
LT_CUDA_LIBRARY=$TMPDIR/text refuse "no library" "make cuda" gpt2-tiny --device cuda
"$TRAIN" gpt2-tiny --device tpu --steps 1 > refused 2>&1
[ $? = 2 ] && grep -q "hint: cpu or cuda" refused || bad "another device: $(cat refused)"
exit $fail
