# SPDX-License-Identifier: Apache-2.0
"""Compares the parameters of two gpt2 or llama checkpoints tensor by tensor: ||a - b|| <= LIMIT ||a||. Usage: weights_near.py A B LIMIT [double]"""
import array
import struct
import sys


def parameters(path):
    with open(path, "rb") as file:
        data = file.read()
    shape = struct.unpack_from("<8q", data, 56)  # after magic, byte order, version and the model's name
    (count,) = struct.unpack_from("<Q", data, 120)
    values = array.array("d" if "double" in sys.argv[4:] else "f")
    begin = 128 + 32 + 8 + 5 * 8 + 3 * 8 + 8  # optimizer, its arrays, state, loss scale, checksum
    values.frombytes(data[begin : begin + values.itemsize * count])
    return shape, values


def sizes_of(shape):
    layers, c, heads = shape[:3]
    if not shape[5]:
        words, positions = shape[3:5]
        sizes = [words * c, positions * c] + [layers * k * c * c for k in (3, 1, 4, 4)]
        return sizes + [layers * k * c for k in (1, 1, 3, 1, 1, 1, 4, 1)] + [c, c]
    groups, hidden, words, experts = shape[3:7]
    sizes = [words * c, layers * (c + 2 * groups * c // heads) * c, layers * c * c]
    if experts:
        sizes += [layers * experts * c]
    wide = layers * max(experts, 1) * hidden * c
    return sizes + [2 * wide, wide, words * c, layers * c, layers * c, c]


def tensors(shape):
    first = 0
    for size in sizes_of(shape):
        yield first, first + size
        first += -(-size // 16) * 16


def main():
    shape, one = parameters(sys.argv[1])
    other_shape, other = parameters(sys.argv[2])
    if shape != other_shape:
        sys.exit(f"shapes {shape} and {other_shape}")
    worst = 0.0
    for begin, end in tensors(shape):
        difference = sum((one[i] - other[i]) ** 2 for i in range(begin, end)) ** 0.5
        norm = sum(one[i] ** 2 for i in range(begin, end)) ** 0.5
        if norm == 0 or not difference <= float(sys.argv[3]) * norm:
            sys.exit(f"elements {begin} to {end}: difference {difference:.3g}, norm {norm:.3g}")
        worst = max(worst, difference / norm)
    print(f"largest difference {worst:.3g} of a tensor's norm")


main()
