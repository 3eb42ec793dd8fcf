#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Python with the nvtx package from PyPI, and multiprocessing by fork and by spawn. Looks for the package where it was installed
# before, then in a virtual environment of its own; without network and package the test is skipped.
set -u
[ -z "$SAN" ] || { echo "sanitizers are not loaded into python"; exit 77; }
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
python=python3
if ! python3 -c 'import nvtx' 2> /dev/null; then
    python=$BUILD/tests/venv/bin/python
    if ! "$python" -c 'import nvtx' 2> /dev/null; then
        python3 -m venv "$BUILD/tests/venv" > /dev/null 2>&1 &&
            timeout 60 "$BUILD/tests/venv/bin/pip" -q --disable-pip-version-check install nvtx > /dev/null 2>&1
    fi
    "$python" -c 'import nvtx' 2> /dev/null || { echo "the nvtx package is not here and could not be installed"; exit 77; }
fi
cat > "$TMPDIR/target.py" << 'PYTHON'
import multiprocessing as mp, sys, threading
import nvtx

@nvtx.annotate("decorated", domain="python")
def work():
    with nvtx.annotate("größer", color="blue", category="io"):
        nvtx.mark("marked")

def child(n):
    for _ in range(n):
        work()

if __name__ == "__main__":
    child(100)
    threads = [threading.Thread(target=child, args=(50,)) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    for method in ("fork", "spawn"):
        ctx = mp.get_context(method)
        children = [ctx.Process(target=child, args=(30,)) for _ in range(3)]
        for c in children: c.start()
        for c in children: c.join()
        if any(c.exitcode for c in children): sys.exit(1)
PYTHON
mkdir "$TMPDIR/segments"
TACHO_SEGMENTS=$TMPDIR/segments NVTX_INJECTION64_PATH=$LIBTACHO "$python" "$TMPDIR/target.py" || { echo "python failed"; exit 1; }
"$BUILD/tests/targets/pool_dump" "$TMPDIR/segments" > "$TMPDIR/dump" || exit 1
awk -F '\t' '$1 == "thread" { r += $5; o += $7 + $13 + $14; m += $8 } $1 == "loss" { l += $4 } $1 == "pool" { p++ }
    END {
        print p " processes, " r " ranges, " m " marks, " o + 0 " open, " l + 0 " lost"
        exit !(r == 2 * 480 && m == 480 && p == 7 && !o && !l)
    }' "$TMPDIR/dump"
