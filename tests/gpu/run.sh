#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All checks that need a GPU, in one call of at most nine minutes, as one table.
#
#   tests/gpu/run.sh [KIT] [OUT] [LINE...]
#
# KIT: the folder that `make gpu-tests` made where nvcc is (build/gpu); it is all that travels beside this tree. OUT: a folder that gets
# gpu-results.tar.gz and nothing else ($OUT, else KIT/out). The archive is written anew after each check, so what was measured
# survives whatever ends the script: the page for docs/gpu-results.md, results.json, what every command said, and recordings of
# checks that failed. A call that finds an archive in OUT, or a results.json in KIT, of the same build of tacho goes on with the
# checks that are not in it. LINE: numbers of lines (1a, 9) to measure again. $TACHO_GPU_KEEP is a folder that gets all recordings.
#
# Exit status: 0 when nothing failed, 1 when something did, 77 without a GPU.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
kit=$(realpath -m "${1:-$root/build/gpu}")
out=$(realpath -m "${2:-${OUT:-$kit/out}}")
shift $(($# < 2 ? $# : 2))
[ -d "$kit" ] || { echo "tests/gpu/run.sh: $kit: no such folder; make gpu-tests makes build/gpu"; exit 1; }
cd "$root" || exit 1
[ -x "$kit/tacho" ] || { echo "tests/gpu/run.sh: $kit/tacho: not built"; exit 1; }
# a machine with nothing installed: of the libraries that `make gpu-tests` put beside, those that are missing here and no others, because
# the programs that are recorded see them too
lib=$(mktemp -d)
for _ in 1 2 3 4; do # a library may need another one
    names=$(LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ldd "$kit/tacho" "$kit/train" 2> /dev/null | awk '/not found/ { print $1 }')
    for name in $names; do [ ! -e "$kit/lib/$name" ] || ln -sf "$kit/lib/$name" "$lib/"; done
done
if [ -n "$(ls "$lib")" ]; then export LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; else rmdir "$lib"; fi
"$kit/tacho" version > /dev/null || { echo "tests/gpu/run.sh: $kit/tacho does not run here"; ldd "$kit/tacho" | grep 'not found'; exit 1; }
command -v python3 > /dev/null || { echo "tests/gpu/run.sh: no python3 here"; exit 77; }
[ -n "${TACHO_GPU_REHEARSAL:-}" ] || ls /dev/nvidia[0-9]* > /dev/null 2>&1 || [ -e /dev/dxg ] || {
    echo "tests/gpu/run.sh: no GPU here"
    exit 77
}
mkdir -p "$out"
exec timeout -k 5 540 python3 tests/gpu/checks.py "$kit" "$out" "$@"
