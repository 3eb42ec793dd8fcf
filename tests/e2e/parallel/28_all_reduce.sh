#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The engine's own all-reduces over MPI: what a rank sends, counted between the engine and the library by MPI's profiling interface, equals
# the formula to the byte and to the message; losses are those of the library's all-reduce; `ordered` gives the same checkpoint as itself
# with other buckets.
# shellcheck disable=SC2154 # variables of ranks_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
train=("$TRAIN" gpt2-tiny --layers 1 --channels 32 --heads 2 --data "$SRC/LICENSE" --seq 16 --batch 2 --seed 3 --log-every 1 --steps 4)
parameters=$((13 * 32 + 12 * 32 * 32 + 256 * 32 + 128 * 32 + 2 * 32)) # 1 layer, 32 channels, 256 words, 128 positions
lines() { sed -n 's/^step *\([0-9]*\).*loss \([0-9.]*\)  norm \([0-9.]*\).*/\1 \2 \3/p' "$1"; }

for ranks in 2 3; do
    counted $ranks
    lines out > library
    [ "$(cat sent.0)" = "0 0" ] || wrong "the library's all-reduce went through MPI_Isend: $(cat sent.0)"
    for kind in ring tree doubling ordered hierarchical; do
        counted $ranks --all-reduce $kind
        paste -d ' ' library <(lines out) | awk '{ d = $2 - $5; e = $3 - $6; if ($1 != $4 || d * d > 1e-6 || e * e > 1e-5) bad = 1 } END { exit bad || NR != 4 }' ||
            wrong "$kind, $ranks ranks: other losses: $(lines out | paste library -)"
        said=$(sed -n "s/^gradients: rank 0 sent \([0-9]*\) bytes in \([0-9]*\) messages ($kind)$/\1 \2/p" out)
        [ "$said" = "$(cat sent.0)" ] || wrong "$kind, $ranks ranks: says '$said', MPI counted '$(cat sent.0)'"
        all=$(cat sent.* | awk '{ b += $1; m += $2 } END { print b, m }')
        # bytes of all ranks in 4 steps: 2 S (N - 1), of doubling S log2 N a rank (3 ranks: S there and back, and S log2 2 of two ranks)
        s=$((4 * 4 * parameters)) buckets=4
        case $kind-$ranks in
        ring-* | ordered-* | hierarchical-*) want="$((2 * s * (ranks - 1))) $((buckets * 2 * (ranks - 1) * ranks))" ;;
        tree-*) want="$((2 * s * (ranks - 1))) $((buckets * 2 * (ranks - 1)))" ;;
        doubling-2) want="$((2 * s)) $((buckets * 2))" ;;
        doubling-3) want="$((4 * s)) $((buckets * 4))" ;;
        esac
        [ "$all" = "$want" ] || wrong "$kind, $ranks ranks: sent '$all', by the formula '$want'"
    done
done
# of four ranks, two on a machine: a chunk within it, half of the chunk between them, in 2 + 2 messages
counted 4 --all-reduce hierarchical --node-ranks 2
all=$(cat sent.* | awk '{ b += $1; m += $2 } END { print b, m }')
[ "$all" = "$((4 * 4 * 4 * parameters * 3 / 2)) $((4 * 4 * 4))" ] || wrong "hierarchical, two machines: sent '$all'"
counted 3 --all-reduce ordered --checkpoint whole
counted 3 --all-reduce ordered --checkpoint parts --bucket-mib 0.01 --no-overlap
cmp whole parts || wrong "other buckets change the sums of 'ordered'"
counted 2 --all-reduce ring --slow-link 3 --dtype bf16
[ "$(cut -d ' ' -f 1 sent.0)" = $((4 * 3 * 2 * parameters)) ] || wrong "bf16, sent three times: $(cat sent.0)"
"$TRAIN" gpt2-tiny --all-reduce nonsense > out 2> err
[ $? = 2 ] && grep -q '^hint: .*ring' err || wrong "--all-reduce nonsense: $(cat err)"
