#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registers of the kernels that `make cuda` has built, beside those of tests/gpu/registers.tsv. No kernel may spill.

    registers.py FOLDER SNAPSHOT [--bless]

FOLDER: build/cuda, which keeps what ptxas said of each file. SNAPSHOT: the first line names the compiler, then a line for each kernel with
its registers for each architecture. Another compiler may need other numbers: then only spills are looked at, and this is said.
"""
import glob
import os
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\S+)' for 'sm_(\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")


def read(folder):
    """kernel -> architecture -> registers; what spills."""
    found, spilling, kernel = {}, [], None
    for path in sorted(glob.glob(os.path.join(folder, "*.ptxas"))):
        with open(path, encoding="utf-8") as f:
            for line in f:
                if match := ENTRY.search(line):
                    kernel = match.groups()
                elif (match := SPILLS.search(line)) and kernel and match.groups() != ("0", "0"):
                    spilling.append(kernel)
                elif (match := USED.search(line)) and kernel:
                    found.setdefault(kernel[0], {})[kernel[1]] = int(match[1])
    return found, spilling


def plain(names):
    """Mangled names as the source has them, without parameters."""
    shown = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(zip(names, (re.sub(r"^void |\(.*", "", x.replace("unsigned short", "lt_bf16")) for x in shown)))


def table(found, compiler):
    names = plain(list(found))
    archs = sorted({arch for rows in found.values() for arch in rows}, key=lambda x: int(x.rstrip("abf")))
    lines = [compiler, "kernel\t" + "\t".join("sm_" + a for a in archs)]
    return lines + sorted("\t".join([names[k], *(str(rows.get(a, "-")) for a in archs)]) for k, rows in found.items())


def compiler_of(folder):
    """The compiler that built the folder, as the first line of a snapshot names it."""
    with open(os.path.join(folder, "nvcc"), encoding="utf-8") as f:
        nvcc = f.read().strip()
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return "nvcc " + re.search(r"release ([\d.]+), V([\d.]+)", said)[2]


def main():
    folder, snapshot = sys.argv[1:3]
    if not glob.glob(os.path.join(folder, "*.ptxas")):
        print(f"no {folder}/*.ptxas: `make cuda` was not run")
        return 77
    found, spilling = read(folder)
    rows = table(found, compiler_of(folder))
    if "--bless" in sys.argv:
        with open(snapshot, "w", encoding="utf-8") as f:
            f.write("\n".join(rows) + "\n")
    with open(snapshot, encoding="utf-8") as f:
        want = f.read().splitlines()
    print(f"{len(found)} kernels, {sum(map(len, found.values()))} of all architectures, {len(spilling)} spill")
    for kernel, arch in spilling:
        print(f"FAIL: spills on sm_{arch}: {plain([kernel])[kernel]}")
    if rows[:2] != want[:2]:
        print(f"built by {rows[0]} ({rows[1]}), the snapshot is of {want[0]} ({want[1]}): registers not compared")
        return 1 if spilling else 0
    changed = sorted(set(rows) ^ set(want))
    for line in changed:
        print(("built:    " if line in rows else "snapshot: ") + line)
    if changed:
        print("FAIL: other registers than in the snapshot; if that is meant: BLESS=1 make test FILTER=30_cuda_build")
    return 1 if changed or spilling else 0


if __name__ == "__main__":
    sys.exit(main())
