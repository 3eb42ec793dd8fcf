#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The machine code of the kernels (make cuda-sass), counted, beside tests/gpu/sass.tsv, and what must be true of it with any compiler.

    sass.py FOLDER SNAPSHOT [--bless]

A line for each kernel and architecture: instructions; HMMA (products of the tensor cores, by a warp or a group of four); MUFU (exponentials, roots); loads and stores of
global memory, and how many of them are of 16 bytes; those of shared memory; barriers. Another compiler may count otherwise: then only these
are looked at: nothing lives in local memory; attention in bf16 multiplies on the tensor cores and nothing else does; kernels that work in
packs of 16 bytes load and store so.
"""
import collections
import glob
import os
import re
import sys

from registers import compiler_of, plain

ARCH, FUNCTION = re.compile(r"^\s*arch = sm_(\w+)|^\s*\.target\s+sm_(\w+)"), re.compile(r"^\s*Function : (\S+)")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")
COUNTED = ("instructions", "HMMA", "MUFU", "global", "global16", "shared", "BAR", "local")


def kinds(opcode):
    """What an instruction counts as."""
    name = opcode.split(".")[0]
    yield "instructions"
    if name in ("HMMA", "MUFU", "BAR"):
        yield name
    if name == "HGMMA":
        yield "HMMA"
    if name in ("LDG", "STG"):
        yield "global"
        if ".128" in opcode:
            yield "global16"
    if name in ("LDS", "STS", "LDSM"):
        yield "shared"
    if name in ("LDL", "STL"):
        yield "local"


def read(folder):
    """(kernel, architecture) -> counts."""
    found, arch, kernel = {}, None, None
    for path in sorted(glob.glob(os.path.join(folder, "*.sass"))):
        with open(path, encoding="utf-8") as f:
            for line in f:
                if match := ARCH.search(line):
                    arch = match[1] or match[2]
                elif match := FUNCTION.search(line):
                    kernel = (match[1], arch)
                    found[kernel] = collections.Counter()
                elif kernel and (match := INSTRUCTION.search(line)):
                    found[kernel].update(kinds(match[1]))
    return found


def untrue(name, arch, counts):
    """What must be true of a kernel and is not. Those of Hopper are empty elsewhere."""
    if counts["local"]:
        yield f"{counts['local']} accesses to local memory"
    products = bool(re.match(r"attention_(out|dqkv)<lt_bf16", name) or name.startswith("hopper_") and arch == "90a")
    if products != bool(counts["HMMA"]):
        yield f"{counts['HMMA']} instructions of the tensor cores"
    packed = re.match(r"\w+<(?:lt_bf16, 8|float, 4)\b", name)
    if packed and counts["global16"] * 2 < min(counts["global"], 4):
        yield f"{counts['global16']} of {counts['global']} accesses to global memory are of 16 bytes"


def main():
    folder, snapshot = sys.argv[1:3]
    found = read(folder)
    names = plain(sorted({kernel for kernel, _ in found}))
    compiler, failed = compiler_of(folder), 0
    for (kernel, arch), counts in sorted(found.items()):
        for what in untrue(names[kernel], arch, counts):
            print(f"FAIL: {names[kernel]} on sm_{arch}: {what}")
            failed = 1
    rows = [compiler, "kernel\tarch\t" + "\t".join(COUNTED)]
    rows += sorted("\t".join([names[k], "sm_" + arch, *(str(c[x]) for x in COUNTED)]) for (k, arch), c in found.items())
    print(f"{len(found)} kernels of all architectures disassembled")
    if "--bless" in sys.argv:
        with open(snapshot, "w", encoding="utf-8") as f:
            f.write("\n".join(rows) + "\n")
    if not os.path.exists(snapshot):
        print(f"no {os.path.basename(snapshot)} yet: counts not compared (BLESS=1 make test FILTER=30_cuda_build writes it)")
        return failed or not found
    with open(snapshot, encoding="utf-8") as f:
        want = f.read().splitlines()
    if want[0] != compiler:
        print(f"built by {compiler}, the snapshot is of {want[0]}: counts not compared")
        return failed or not found
    changed = sorted(set(rows) ^ set(want))
    for line in changed:
        print(("built:    " if line in rows else "snapshot: ") + line)
    return failed or not found or bool(changed)


if __name__ == "__main__":
    sys.exit(main())
