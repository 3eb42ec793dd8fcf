#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Seeds of fuzz_lt_bpe. usage: fuzz_lt_bpe.sh TRACES SEEDS
set -eu
mkdir -p "$2"
cd "$2"
printf '\0tacho-bpe 1 2\n97 98\n256 99\nsum 0000000000000000\n' > file
printf '\0tacho-bpe 1 0\nsum 0000000000000000\n' > none
printf '\001\002a\0b\0\0\001c\0abcabc  ab\n\n x12' > merges
