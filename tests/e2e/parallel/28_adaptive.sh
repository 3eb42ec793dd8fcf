#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Messages of a codec packed by zstd, and the codec chosen by measurement: what each rank sends, counted by MPI's profiling interface, is what
# train prints; the choice is the least of its predictions.
# shellcheck disable=SC2154 # variables of ranks_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
train=("$TRAIN" gpt2-tiny --layers 2 --channels 36 --heads 3 --data "$SRC/LICENSE" --seq 16 --batch 4 --seed 3 --log-every 1 --lr 3e-3)
cores=$(getconf _NPROCESSORS_ONLN)
zstd=$(grep HAVE_ZSTD "$(dirname "$TRAIN")/config.mk" 2> /dev/null)
# packed by zstd, and sizes of 8 bytes ahead: what MPI counts is what was printed, and the formula less what packing saved
if [ -n "$zstd" ]; then
    counted 2 --steps 20 --compress int8+zstd
    sent=$(sed -n 's/^gradients: rank 0 sent \([0-9]*\) bytes in \([0-9]*\) messages; at most by formula \([0-9]*\) in \2$/\1 \2 \3/p' out)
    after=$(sed -n 's/^parameters: rank 0 sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula.*/\1 \2/p' out)
    packed=$(sed -n 's/^zstd: rank 0 packed \([0-9]*\) bytes into \([0-9]*\) ([0-9.]*) in [0-9.]* s of processor time.*/\1 \2/p' out)
    echo "$sent $after $packed $(cat sent.0)" | awk '{ exit !(NF == 9 && $7 < 0.9 * $6 && $1 == $3 - $6 + $7 && $8 == $1 + $4 && $9 == $2 + $5) }' ||
        wrong "zstd: $sent / $after / $packed, counted $(cat sent.0)"
    counted 2 --steps 20 --compress int8
    plain=$(sed -n 's/^gradients: rank 0 sent [0-9]* bytes in [0-9]* messages; by formula \([0-9]*\) in.*/\1/p' out)
    echo "$sent" | awk -v plain="$plain" '{ exit !($3 == plain + 20 * 3 * 8) }' || wrong "zstd: the bound is not the formula: $sent, without it $plain"
else
    "${train[@]}" --compress int8+zstd > out 2> err
    [ $? = 4 ] && grep -q '^hint: install libzstd-dev' err || wrong "without zstd: $(cat err)"
fi
"${train[@]}" --compress powersgd+zstd > out 2> err
[ $? = 2 ] && grep -q 'summed in transit' err || wrong "powersgd+zstd: $(cat err)"
# by measurement: over a link of 1 MB/s some codec is predicted to be the fastest, and is taken; what is sent to measure is said and counted. So slow
# a link, on which gradients take some 95 ms, decides also where other programs take the cores for some milliseconds of each message
if [ "$cores" -ge 2 ]; then
    BYTE_NS=1000 counted 2 --steps 8 --compress adaptive
    line=$(grep '^adaptive: .* after 3 steps' out)
    sed -n 's/^adaptive: \([a-z0-9]*\) after.* and \([0-9.]*\) GB.s; ms a reduction: \(.*\); measuring.*/\1 \2 \3/p' out | tr -d , |
        awk '{ for (i = 3; i < NF; i += 2) { t[$i] = $(i + 1); if (least == "" || $(i + 1) < least) least = $(i + 1) }
            exit !(NF == 14 && $1 != "none" && t[$1] == least && least < t["none"] / 3 && $2 <= 0.0011 && $2 > 0.0002) }' || wrong "adaptive: $line"
    ! grep 'by formula' out | grep -v 'sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' || wrong "adaptive: $(grep formula out)"
    sed -n 's/.* sent \([0-9]*\) bytes in \([0-9]*\) messages.*/\1 \2/p' out | awk '{ b += $1; m += $2 } END { print b, m }' | diff - sent.0 > d || wrong "adaptive: printed, counted: $(cat d)"
    "${train[@]}" --compress adaptive > out 2> err
    [ $? = 2 ] && grep -q 'one rank has no link' err || wrong "one rank: $(cat err)"
    mpirun -np 2 "${train[@]}" --compress adaptive --steps 3 > out 2> err
    grep -q 'chooses after 3 steps' err || wrong "too few steps: $(cat err)"
fi
mpirun -np $((cores + 1)) --oversubscribe "${train[@]}" --compress adaptive > out 2> err
grep -q 'times are not measured' err || wrong "more ranks than cores: $(cat err)"
exit $bad
