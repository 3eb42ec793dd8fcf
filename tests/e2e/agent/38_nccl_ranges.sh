#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# NVTX ranges of the real libnccl, which needs no GPU for that: communicator and bytes of each call, without the plugin.
set -u
command -v sqlite3 > /dev/null || { echo "sqlite3 is not here"; exit 77; }
cd "$TMPDIR" || exit 1
library=${CUDA_HOME:-/usr/local/cuda}/lib64/libnccl.so.2
[ -r "$library" ] || library=libnccl.so.2
NCCL_PROFILER_PLUGIN=none timeout 100 "$TACHO" run --no-hook --no-peak --no-counters -o nccl.tacho -- \
    "$BUILD/tests/targets/target_libnccl" "$library" > out 2> err
status=$?
[ $status != 77 ] || { echo "no libnccl here: $(tail -n 1 out)"; exit 77; }
[ $status = 0 ] || { echo "status $status: $(cat out err)"; exit 1; }
row=$(sqlite3 -readonly nccl.tacho "SELECT c.text || ' ' || n.text || ' ' || detail.bytes || ' ' || detail.payload FROM slice
    JOIN string n ON n.id = slice.name JOIN string c ON c.id = category JOIN detail ON detail.id = slice.detail WHERE n.text = 'ncclAllReduce'")
want='NCCL ncclAllReduce 4096 {"NCCL communicator ID":0,"Message size [bytes]":4096}'
[ "$row" = "$want" ] || { echo "recorded $row"; exit 1; }
echo "note: $(sed -n 's/^version \([0-9]*\).*/NCCL \1/p' out)"
