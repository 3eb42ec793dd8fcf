#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Steps of GPT-2 124M, four samples of T tokens, on the cores this process may use: the reference engine in fp32 and bf16, beside the
# limit of this machine (lt_limit.c has the formula), PyTorch and llm.c where they are. All take turns, the limit too, REPEATS times,
# because the speed of a shared machine drifts by a fifth within minutes; a repeat is the median of its timed steps. Printed are
# median, worst and best of the repeats, and the median over the repeats of the limit's share in the step beside it.
# usage: tests/bench/engine.sh BUILD
# environment: REPEATS (5), BENCH_SEQ ("64 256"), BENCH_DTYPES ("fp32 bf16")
#   TORCH_PYTHON  a python3 that has torch (default: python3; 'pip install torch' into a venv)
#   LLMC_DIR      a checkout of llm.c (github.com/karpathy/llm.c): its train_gpt2.c is built with the flags of its Makefile
#   OPENBLAS_LIB  a libopenblas.so to try for the limit (default: the system's, if there is one)
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(cd "${1:?BUILD}" && pwd) || exit 1
repeats=${REPEATS:-5}
seqs=${BENCH_SEQ:-64 256}
dtypes=${BENCH_DTYPES:-fp32 bf16}
torch=${TORCH_PYTHON:-python3}
cores=$(nproc)
peers=$PWD/tests/bench/peers
work=$(mktemp -d "${TMPDIR:-/tmp}/tacho-engine-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=$cores
# OpenBLAS goes by the CPU's model number, and takes slow kernels for one it does not know
grep -q avx512f /proc/cpuinfo && export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-SkylakeX}

say() { echo "bench-engine: $*"; }
echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $cores cores, $(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo), Linux $(uname -r)"
echo "date:    $(date -u '+%Y-%m-%d %H:%M UTC'), load $(cut -d' ' -f1-3 /proc/loadavg) before; $repeats repeats, interleaved"
echo "tacho:   $("$build/tacho" version | head -n 1)$(git rev-parse --short HEAD 2> /dev/null | sed 's/^/, commit /'), $("$build/train" calibrate --libraries | sed -n 's/.*"libraries":"\([^"]*\)".*/\1/p')"

# ---- who is there ------------------------------------------------------------------------------------------------------------
if version=$("$torch" -c 'import torch; print(torch.__version__, "oneDNN" if torch.backends.mkldnn.is_available() else "", torch.backends.cpu.get_cpu_capability())' 2> /dev/null); then
    echo "PyTorch: $version, eager, AdamW fused or foreach (the faster), large blocks of memory kept (MALLOC_*_), bf16 by autocast"
else
    torch=
    say "no PyTorch: TORCH_PYTHON names a python3 that has it; its columns are missing"
fi
llmc=
if [ -r "${LLMC_DIR:-}/train_gpt2.c" ]; then
    # the line its Makefile would compile with, less compiler, source and output
    flags=$(make -nB -C "$LLMC_DIR" train_gpt2 2> /dev/null | grep 'train_gpt2\.c' | tail -n 1 | sed 's/^[^ ]* //; s/train_gpt2\.c//; s/-o *[^ ]*//')
    # shellcheck disable=SC2086
    if [ -n "$flags" ] && cc $flags -I"$LLMC_DIR" "$peers/llmc.c" ${flags##*-DOMP} -lm -o "$work/llmc" 2> "$work/llmc.err"; then
        llmc=$work/llmc
        echo "llm.c:   $(git -C "$LLMC_DIR" log -1 --format='commit %h of %cs' 2> /dev/null || cksum < "$LLMC_DIR/train_gpt2.c" | sed 's/^/no git, cksum of train_gpt2.c /'), $(echo $flags); fp32 only"
    else
        say "llm.c in $LLMC_DIR does not build: $(tail -n 1 "$work/llmc.err" 2> /dev/null)"
    fi
else
    say "no llm.c: LLMC_DIR names a checkout of it; its columns are missing"
fi
echo

# ---- measuring: one number a repeat into work/WHO.DTYPE.T ----------------------------------------------------------------------
median() { sort -g | awk '{x[NR] = $1} END {if (NR) print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2}'; }
tacho_steps() { # DTYPE T
    "$build/train" gpt2-124M --dtype "$1" --batch 4 --seq "$2" --steps 5 --workers 1 --log-every 1 2> "$work/err" |
        sed -n 's/^step .* \([0-9.]*\) ms .*/\1/p' | tail -n +3 | median
}
torch_steps() { # DTYPE T
    MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_TOP_PAD_=268435456 \
        "$torch" "$peers/torch_gpt2.py" "$1" "$2" 3 "$cores" 2> "$work/err" | sed -n 's/^step //p' | median
}
llmc_steps() { # DTYPE T
    "$llmc" "$2" 1 "$work/llmc.bin" 2> "$work/err" | sed -n 's/^step //p' | median
}
keep() { # WHO DTYPE T
    local ms
    ms=$("$1_steps" "$2" "$3")
    if [ -n "$ms" ]; then
        echo "$ms" >> "$work/$1.$2.$3"
    else
        say "$1, $2, T=$3: no step: $(tail -n 1 "$work/err")"
    fi
}
for repeat in $(seq "$repeats"); do
    for t in $seqs; do
        for dtype in $dtypes; do
            "$build/tests/bench/lt_limit" "$dtype" "$t" 3 > "$work/products" 2> "$work/err" || say "$(tail -n 1 "$work/err")"
            [ "$repeat" != 1 ] || grep -v '^limit' "$work/products"
            sed -n 's/^limit //p' "$work/products" >> "$work/parts.$dtype.$t"
            sed -n 's/^limit .* \([0-9.]*\)$/\1/p' "$work/products" >> "$work/limit.$dtype.$t"
            keep tacho "$dtype" "$t"
            [ -z "$torch" ] || keep torch "$dtype" "$t"
            [ -z "$llmc" ] || [ "$dtype" != fp32 ] || keep llmc "$dtype" "$t"
        done
    done
done

# ---- the table -----------------------------------------------------------------------------------------------------------------
# FLOPs of a token: 6 (12 L C^2 + V C) + 6 L C (T + 1)
echo
printf '%-5s %4s  %-8s %22s %9s %9s %9s  %s\n' dtype T who 'tokens/s (worst-best)' 'ms/step' GFLOP/s 'of limit' 'tacho is'
row() { # DTYPE T WHO FILE
    [ -s "$4" ] || return 0
    local share=
    [ ! -s "$work/limit.$1.$2" ] || share=$(paste "$work/limit.$1.$2" "$4" | awk 'NF == 2 {print 100 * $1 / $2}' | median)
    sort -g "$4" | awk -v dtype="$1" -v t="$2" -v who="$3" -v share="$share" -v ours="$ours" '{x[NR] = $1} END {
        m = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2
        flops = 6 * (12 * 12 * 768 * 768 + 50257 * 768) + 6 * 12 * 768 * (t + 1)
        printf "%-5s %4d  %-8s %8.1f (%.1f-%.1f) %9.1f %9.1f", dtype, t, who, 4e3 * t / m, 4e3 * t / x[NR], 4e3 * t / x[1], m, flops * 4 * t / m * 1e-6
        if (share != "") printf " %7.1f %%", share; else printf " %9s", "-"
        if (ours > 0 && who != "tacho" && who != "limit") printf "  %.2f times as fast", m / ours
        print ""
    }'
}
for t in $seqs; do
    for dtype in $dtypes; do
        ours=$(median < "$work/tacho.$dtype.$t" 2> /dev/null)
        row "$dtype" "$t" limit "$work/limit.$dtype.$t"
        row "$dtype" "$t" tacho "$work/tacho.$dtype.$t"
        row "$dtype" "$t" PyTorch "$work/torch.$dtype.$t"
        row "$dtype" "$t" llm.c "$work/llmc.$dtype.$t"
    done
done
for dtype in $dtypes; do
    for t in $seqs; do
        sed -n "s/^[^:]*: \([0-9.]*\) \([0-9.]*\) \([0-9.]*\) .*/limit $dtype T=$t: products \1 ms + attention \2 ms + AdamW \3 ms/p" "$work/parts.$dtype.$t" | tail -n 1
    done
done
echo "load $(cut -d' ' -f1-3 /proc/loadavg) after"
