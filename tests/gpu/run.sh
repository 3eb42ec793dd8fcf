#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All checks that need a GPU, in one call of at most nine minutes, as one table.
#
#   tests/gpu/run.sh [BUILD] [OUT]     BUILD: a build folder, carried here or made here (build); OUT: a folder for the table
#                                      and the recorded runs ($OUT, else BUILD/tests/gpu); log.txt there: what every command said
#
# Before: `make gpu-tests` where nvcc is. Exit status: 0 when nothing failed, 1 when something did, 77 without a GPU.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
out=${2:-${OUT:-$build/tests/gpu}}
build=$(cd "$build" 2> /dev/null && pwd) || { echo "tests/gpu/run.sh: ${1:-build}: no such folder"; exit 1; }
[ -x "$build/tacho" ] || { echo "tests/gpu/run.sh: $build/tacho: not built"; exit 1; }
# a machine with nothing installed: the libraries that `make gpu-tests` put beside
"$build/tacho" version > /dev/null 2>&1 || export LD_LIBRARY_PATH="$build/tests/gpu/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
"$build/tacho" version > /dev/null || { echo "tests/gpu/run.sh: $build/tacho does not run here"; ldd "$build/tacho" | grep 'not found'; exit 1; }
command -v python3 > /dev/null || { echo "tests/gpu/run.sh: no python3 here"; exit 77; }
ls /dev/nvidia[0-9]* > /dev/null 2>&1 || [ -e /dev/dxg ] || { echo "tests/gpu/run.sh: no GPU here"; exit 77; }
mkdir -p "$out"
exec timeout 540 python3 tests/gpu/checks.py "$build" "$out"
