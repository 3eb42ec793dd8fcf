#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Seeds of fuzz_lt_data: kind, where the second file starts (a share of 65535), the files. usage: fuzz_lt_data.sh TRACES SEEDS
set -eu
mkdir -p "$2"
cd "$2"
# a shard of 8 tokens: magic 20240520, version 1
{
    printf '\0\0\0\130\326\064\001\001\0\0\0\010\0\0\0'
    head -c 1012 /dev/zero
    printf '\001\0\002\0\003\0\004\0\120\304\006\0\007\0\010\0'
} > shard
# two images of 2 x 3 pixels (22 bytes) and two labels (10 bytes)
printf '\001\0\260\0\0\010\003\0\0\0\002\0\0\0\002\0\0\0\003abcdefghijkl\0\0\010\001\0\0\0\002\001\007' > idx
# two images of the same size, one with a comment and values of two bytes
printf '\002\377\177P5\n2 2\n255\nabcd P5#c\n2 2 999 abcdefgh' > pgm
printf '\002\0\200P6 1 1 3 \001\002\003P6 1 1 3 \001\002\003' > ppm
printf '\002\0\200abcdabcd' > bare
