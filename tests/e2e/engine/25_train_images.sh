#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# train on folders of PNG images of many sizes (written here, chunk by chunk): it learns them, scaled, cropped, mirrored and normalised; neither
# workers nor a resume change a bit; what cannot be read is refused by name.
set -u
fail() { echo "FAIL: $*"; exit 1; }
cd "$TMPDIR" || exit 1
export OMP_NUM_THREADS=1
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
python3 - << 'PY' || fail "no images"
import os, random, struct, zlib

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

def png(path, width, height, pixel):
    rows = b"".join(b"\0" + bytes(value for x in range(width) for value in pixel(x, y)) for y in range(height))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

random.seed(1)
# stripes across, stripes down: whatever is mirrored or cut off stays of its class
for name, count in ("train", 60), ("val", 16):
    for across in False, True:
        folder = f"images/{name}/{'across' if across else 'down'}"
        os.makedirs(folder)
        for i in range(count):
            width, height, shift = random.randint(20, 36), random.randint(20, 36), random.randint(0, 7)
            low, high = [random.randint(0, 90) for _ in range(3)], [random.randint(150, 255) for _ in range(3)]
            png(f"{folder}/{i}.png", width, height, lambda x, y: high if ((y if across else x) + shift) // 4 % 2 else low)
PY
args=(resnet-tiny --channels 4 --batch 12 --data images --image-size 18 --pad 2 --crop 16 --flip --normalise --schedule constant --warmup 0 --lr 5e-3)
"$TRAIN" "${args[@]}" --steps 60 --eval-every 60 --eval-batches 2 --log-every 0 > learns 2> err
code=$?
if [ $code = 4 ] && grep -q 'a PNG image, which this build cannot read' err; then echo "built without libpng"; exit 77; fi
[ $code = 0 ] || { cat learns err; fail "it failed"; }
grep -q 'images of 16 x 16 x 3, from 4 channels on, 2 classes' learns && grep -q '^data: 120 samples to learn from, 32 held out' learns || { cat learns; fail "another shape"; }
accuracy=$(sed -n 's/^evaluation after step 59 .*accuracy \([0-9.]*\) %.*/\1/p' learns)
echo "accuracy on held-out images: ${accuracy:-none} %"
awk -v a="${accuracy:-0}" 'BEGIN { exit !(a >= 90) }' || fail "it does not learn"

"$TRAIN" "${args[@]}" --steps 8 --workers 0 --checkpoint whole > /dev/null || fail "whole"
"$TRAIN" "${args[@]}" --steps 8 --workers 3 --prefetch 5 --checkpoint threads > /dev/null || fail "three workers"
"$TRAIN" "${args[@]}" --steps 8 --workers 2 --worker-kind processes --checkpoint processes > /dev/null || fail "processes"
"$TRAIN" "${args[@]}" --steps 5 --checkpoint part > /dev/null && "$TRAIN" "${args[@]}" --steps 8 --checkpoint part --resume part > /dev/null || fail "resume"
for other in threads processes part; do cmp -s whole $other || fail "$other: another state"; done

refuse() { # CODE PATTERN ARGUMENTS
    local want=$1 pattern=$2
    shift 2
    "$TRAIN" "$@" > out 2> err
    local code=$?
    [[ $code =~ ^$want$ ]] && grep -q "$pattern" err && grep -q '^hint: ' err || { cat out err; fail "$*: exit $code, not $want with '$pattern'"; }
}
refuse 3 'written by a run on other data' "${args[@]/--flip/--pin}" --steps 9 --resume whole
refuse 3 'the first image has' resnet-tiny --data images --steps 20
refuse 3 '20 pixels\|20 x 20 pixels with their padding' "${args[@]}" --steps 2 --pad 1 --crop 30
refuse 2 'learns from text' gpt2-tiny --flip
refuse 2 'are not scaled' mlp --image-size 8
cp -r images damaged && head -c 60 images/train/down/3.png > damaged/train/down/3.png
refuse 3 'damaged/train/down/3.png: not read as PNG' resnet-tiny --data damaged --image-size 18 --steps 20
printf '\377\330\377\340\0\020JFIF' > damaged/train/down/3.png
refuse '[34]' 'damaged/train/down/3.png' resnet-tiny --data damaged --image-size 18 --steps 20
