#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# wide: yes
# tests/gpu/run.sh from end to end without a GPU: the programs that it records run on substitutes for CUDA, cuBLAS, NVML and
# torch.profiler (tests/gpu/substitute). It is killed, and a second call goes on with what is left.
# shellcheck disable=SC2153  # TACHO comes from tests/run
set -u
[ -z "${SAN:-}" ] || { echo "a sanitizer's runtime must be loaded before everything else, and the programs are not built with it"; exit 77; }
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
cd "$TMPDIR" || exit 1
fail=0
bad() {
    echo "$*"
    fail=1
}
nvtx=$(sed -n 's/^NVTX_CFLAGS := //p' "$BUILD/config.mk")
mkdir kit programs
# shellcheck disable=SC2086 # flags are several words
${CXX:-g++} -std=gnu++17 -O0 -I"$SRC/tests/gpu/substitute" -I"$SRC/include" -I"$SRC" $nvtx -x c++ "$SRC/tests/gpu/work.cu" -o programs/work -rdynamic -ldl \
    || exit 1
${CXX:-g++} -std=gnu++17 -O0 -fPIC -shared -I"$SRC/tests/gpu/substitute" -I"$SRC" "$SRC/tests/gpu/substitute/cublas.cpp" \
    -Wl,-soname,libcublas.so.13 -o programs/libcublas.so.13 -ldl || exit 1
cp "$SRC"/tests/gpu/substitute/*.py "$BUILD/tests/targets/target_nccl" programs/
# the engine's library finds its runtime beside the one in the build folder
ln -s "$BUILD/tests/cuda/libtrain_cuda.so" programs/
cp "$BUILD/tacho" "$BUILD/libtacho.so" "$BUILD/libtacho_gemm.so" "$BUILD/train" "$BUILD/tests/gpu/step_model" kit/
cp -r "$BUILD/tacho-python" kit/
export TACHO_GPU_REHEARSAL=$TMPDIR/programs LD_LIBRARY_PATH=$BUILD/tests/fake:$TMPDIR/programs PYTHONDONTWRITEBYTECODE=1
export OMP_NUM_THREADS=1 # teams wait for each other longer than they compute such small steps
part() { tar -xzOf out/gpu-results.tar.gz "$1"; }

# killed in the middle
setsid "$SRC/tests/gpu/run.sh" kit out > first.out 2>&1 &
script=$!
for _ in $(seq 600); do # until a few checks are done
    [ "$(grep -c '^ *[0-9]' first.out)" -ge 8 ] && break
    sleep 0.1
done
kill -KILL -- -$script
wait $script 2> /dev/null
[ "$(ls -A out)" = gpu-results.tar.gz ] || [ "$(ls -A out | tr '\n' ' ')" = ".gpu-results.new gpu-results.tar.gz " ] || bad "after the kill: $(ls -A out)"
part gpu-results.md > killed.md || bad "no page after the kill"
grep -q 'not yet run on a GPU' killed.md || bad "nothing was left to do, so nothing was tested"
grep -q '^| 1a | kernels of a CUDA program | 80 of 80' killed.md || bad "what was measured before the kill is lost"

# goes on
"$SRC/tests/gpu/run.sh" kit out > second.out 2>&1
grep -q '^going on with [1-9]' second.out || bad "the second call began anew"
grep -q '^ *1a ' second.out && bad "a check that was done was done again"
[ "$(ls -A out)" = gpu-results.tar.gz ] || bad "the folder has more than the archive: $(ls -A out)"
[ "$(tar -tzf out/gpu-results.tar.gz | wc -l)" -le 8 ] || bad "more than eight files"
[ "$(stat -c %s out/gpu-results.tar.gz)" -lt $((16 << 20)) ] || bad "the archive is too large"
part gpu-results.md > page.md
grep -q 'A rehearsal with substitutes' page.md || bad "the page does not say that it is a rehearsal"
grep 'not yet run on a GPU' page.md && bad "a line was not filled"
for line in 1 1a 1b 2 2b 2c 3 3b 3c 4 5 6 7 8 9 9b 10 11 12 13 14 15 16 17; do
    grep -q "^| $line |" page.md || bad "line $line is not there"
    grep -q "^| $line |" "$SRC/docs/gpu-results.md" || bad "line $line is not in docs/gpu-results.md"
done
# lines that do not depend on how busy this machine is: all that is compared was compared, and nothing is open
for line in 1 1a 1b 3 3b 3c 5 6 8 9 9b 10 11 12 13 14 15 16 17; do
    grep "^| $line |" page.md | grep -v -e '| ok |' -e '| printed |' && bad "line $line"
    grep "^| $line |" page.md | grep -q '| ok |' || bad "nothing was compared in line $line"
done
grep '^| 4 |' page.md | grep FAIL && bad "line 4"
grep '^| 16 |' page.md | grep -q 'GEMMs [0-9.]* ([0-9.]*)' || bad "line 16 has no parts"
# a machine that permits no hardware counters: these lines are open, all others stay as they were
FAKE_PROFILER=denied "$SRC/tests/gpu/run.sh" kit out 3b > third.out 2>&1
part gpu-results.md > denied.md
[ "$(grep -c '^| 3[bc] |.*| open |' denied.md)" = 3 ] || bad "without permission: $(grep '^| 3[bc] |' denied.md)"
rows() { grep '^| ' "$1" | grep -v '^| 3[bc] |'; }
diff <(rows page.md) <(rows denied.md) > /dev/null || bad "other lines changed"
[ $fail = 0 ] || part log.txt | tail -60
exit $fail
