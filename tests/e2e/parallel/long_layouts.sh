#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All layouts of 2, 4 and 8 ranks in an order drawn by a seed (SEED, 1; DRAWS, 34, which is each of them once), with schedules, stages of ZeRO and
# micro-batches drawn by it too: after 20 steps the checkpoint is that of one rank, byte by byte where sums can be made in order, else within 1e-6 of
# each tensor's norm (NEAR: another limit, and "double" where TRAIN is of `make double`); what is said to be sent is the formula. UPDATE="--optimizer
# adamw" NEAR=1 prints how far AdamW, which divides by gradients that are nearly rounding, is from one rank's.
# timeout: 1800
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086,SC2206 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
export OMP_NUM_THREADS=1
update=${UPDATE:---optimizer sgd --lr 0.1 --min-lr 0.1 --warmup 0}
# near LAYOUT OPTIONS...: the weights of `many` are those of `one`; prints how closely
near() {
    python3 "$SRC/tests/e2e/parallel/weights_near.py" one many ${NEAR:-1e-6} > difference 2>&1 || wrong "$*: $(cat difference)"
    echo "note: $*: $(cat difference)"
}
train=("$TRAIN" gpt2-tiny --channels 48 --heads 8 --data "$SRC/LICENSE" --seq 16 --batch 1 --seed 5 --log-every 1 --steps 20)
python3 - "${SEED:-1}" "${DRAWS:-34}" << 'P' > draws
import random
import sys

draw = random.Random(int(sys.argv[1]))
powers = (1, 2, 4, 8)
layouts = [(n, t, p, c) for n in (2, 4, 8) for t in powers for p in powers for c in powers if n % (t * p * c) == 0]
draw.shuffle(layouts)
for i in range(int(sys.argv[2])):
    ranks, tp, pp, cp = layouts[i % len(layouts)]
    dp = ranks // tp // pp // cp
    layers, micro, recompute = draw.randint(max(4, pp), max(7, pp)), draw.choice([1, 2, 3, 5]), draw.choice(["none", "block"])
    zero = draw.choice([0, 1, 2, 3])
    schedule = draw.choice(["gpipe", "1f1b"] + ["interleaved", "zb-h1"] * (pp > 1))
    exact = tp * cp == 1 # sums in the order of ranks, else of parts
    if schedule == "interleaved":
        layers, micro = 2 * pp, pp * draw.choice([1, 2])
    if schedule in ("interleaved", "zb-h1"):
        zero, exact = min(zero, 1), False
    if schedule == "zb-h1":
        recompute = "none"
    factors = [f"dp{dp}", f"tp{tp}", f"pp{pp}", f"cp{cp}"]
    draw.shuffle(factors)
    if cp > 1 and draw.random() < 0.6:
        schedule += " --context " + draw.choice(["ring", "ring-contiguous"])
    sequence = "--sequence-parallel" if tp > 1 and draw.random() < 0.5 else ""
    print(ranks, dp, int(exact), layers, micro, ".".join(factors), f"--zero {zero} --pipeline {schedule}", f"--recompute {recompute}", sequence)
P
while read -r ranks dp exact layers micro layout options; do
    if [ "$exact" = 1 ]; then
        bits=(--all-reduce ordered)
    else
        bits=($update)
    fi
    "${train[@]}" "${bits[@]}" --layers "$layers" --accumulate $((micro * dp)) --checkpoint one > alone 2>&1 || wrong "one rank: $(tail -n 2 alone)"
    timeout 300 mpirun -np "$ranks" --oversubscribe "${train[@]}" "${bits[@]}" --layers "$layers" --accumulate "$micro" --layout "$layout" $options --checkpoint many > out 2> err < /dev/null ||
        wrong "$layout $options: $(cat err)"
    if [ "$exact" = 1 ]; then
        cmp one many || wrong "$layout, $layers layers, $micro micro-batches, $options: other bits"
    else
        near "$layout, $layers layers, $micro micro-batches," $options
    fi
    ! grep 'by formula' out | grep -v 'sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' || wrong "$layout $options: $(grep formula out)"
    rm -f one many
done < draws
echo "$(wc -l < draws) layouts"

# experts and layers of a mixture; where the experts are whole, of a dense model too
python3 - "${SEED:-1}" "${EXPERTS:-10}" << 'P' > draws
import random
import sys

draw = random.Random(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    ranks = draw.choice([2, 4, 8])
    tp = draw.choice([t for t in (1, 2, 4) if ranks % t == 0])
    ep = draw.choice([e for e in (1, 2, 4, 8) if ranks // tp % e == 0])
    pp = draw.choice([p for p in (1, 2, 4) if ranks // ep // tp % p == 0])
    rows = "--sequence-parallel" if tp > 1 and draw.random() < 0.5 else ""
    model = draw.choice(["moe-tiny", "llama-tiny"]) if ep == 1 else "moe-tiny"
    print(model, ranks, ranks // pp // tp, f"dp{ranks // ep // pp // tp}.ep{ep}.tp{tp}.pp{pp}", draw.choice([1, 2, 3]), draw.randint(pp, max(3, pp)),
          draw.choice([8, 16]), draw.randint(1, 3), f"--zero {draw.choice([0, 1, 2, 3])} --recompute {draw.choice(['none', 'block'])}",
          f"--pipeline {draw.choice(['1f1b', 'gpipe'])}", rows)
P
common=(--channels 48 --heads 4 --groups 4 --hidden 42 --data "$SRC/LICENSE" --seq 16 --batch 1 --seed 5 --steps 20 $update)
while read -r model ranks streams layout micro layers experts choices options; do
    train=("$TRAIN" "$model" "${common[@]}")
    shape=(--layers "$layers" --experts "$experts" --choices "$choices")
    [ "$model" = moe-tiny ] || shape=(--layers "$layers")
    "${train[@]}" "${shape[@]}" --accumulate $((micro * streams)) --checkpoint one > alone 2>&1 || wrong "one rank: $(tail -n 2 alone)"
    timeout 300 mpirun -np "$ranks" --oversubscribe "${train[@]}" "${shape[@]}" --accumulate "$micro" --layout "$layout" $options --checkpoint many > out 2> err < /dev/null ||
        wrong "$layout $options: $(cat err)"
    near "$model $layout, $micro micro-batches," "${shape[@]}" $options
    ! grep 'by formula' out | grep -v 'sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' || wrong "$layout $options: $(grep formula out)"
    rm -f one many
done < draws
exit $bad
