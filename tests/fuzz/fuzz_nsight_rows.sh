#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Seeds for fuzz_nsight_rows: inputs of some length, mostly with values that fit. usage: fuzz_nsight_rows.sh FOLDER_OF_TRACES OUT
set -u
mkdir -p "$2"
command -v python3 > /dev/null || exit 0
python3 - "$2" << 'EOF'
import os, random, sys
random.seed(8)
kinds = [(0, 0), (1, 1), (1, 1), (3, 8), (7, 1), (8, 1), (8, 1), (9, 1), (10, 2), (10, 2), (10, 2), (5, 5)]
for i in range(200):
    out = bytearray([random.choice([0, 5, 20, 200, 200])])
    for _ in range(random.choice([1, 3, 10, 40])):
        out.append(random.randrange(256))
        for _ in range(random.choice([2, 5, 11, 18, 24])):
            kind, n = random.choice(kinds)
            value = random.randbytes(n)
            out += bytes([kind]) + (bytes([n - 1]) + value[1:] if kind == 5 else value)
    open(os.path.join(sys.argv[1], f"rows.{i}"), "wb").write(out)
EOF
exit 0
