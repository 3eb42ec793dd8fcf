#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Seeds of fuzz_pool: bytes by chance, the same ones each time. usage: fuzz_pool.sh TRACES SEEDS
set -eu
export LC_ALL=C
mkdir -p "$2"
cd "$2"
for seed in $(seq 24); do
    awk -v s="$seed" 'BEGIN { srand(s); n = 40 * s; for (i = 0; i < n; i++) printf "%c", int(rand() * 256) }' < /dev/null > "$seed"
done
