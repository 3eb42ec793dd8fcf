#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Seeds of fuzz_lt_picture: an image of each kind. usage: fuzz_lt_picture.sh TRACES SEEDS
set -eu
mkdir -p "$2"
cd "$2"
printf 'P5\n3 2\n255\nabcdef' > pgm
printf 'P6 # words\n2 1 65535\nabcdefghijkl' > ppm
printf '%s' /9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP////////////////////////////////////////////////////////////////////////////////////// \
    wgALCAABAAEBAREA/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/aAAgBAQABPxA= | base64 -d > jpeg
command -v python3 > /dev/null || exit 0
python3 - << 'END'
import struct, zlib
def part(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
for name, colour, depth, row, more in (("grey", 0, 8, b"\0abcd", b""), ("colours", 2, 8, b"\0abcdefghijkl", b""), ("clear", 6, 8, b"\1" + b"abcd" * 4, b""),
                                       ("table", 3, 4, b"\0\x01\x10", part(b"PLTE", b"abcdef")), ("deep", 0, 16, b"\4abcdefgh", b"")):
    with open("png-" + name, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", 4, 3, depth, colour, 0, 0, 0)) + more
                   + part(b"IDAT", zlib.compress(row * 3)) + part(b"IEND", b""))
END
