# SPDX-License-Identifier: Apache-2.0
"""Logs that functions make, each with the steps that it has: (lines, (steps, first, last, mean ms, relative error))."""
import os, subprocess, sys

from logs import rows


def write(folder, logs):
    os.makedirs(folder, exist_ok=True)
    for log in logs:
        with open(f"{folder}/{log.__name__}.log", "w") as f:
            f.write("".join(log()[0]) + "\n")


def check(folder, tacho, logs):
    """Imports each log, and says which have other steps than they were made with."""
    wrong = []
    for log in logs:
        name, run = log.__name__, f"{folder}/{log.__name__}.tacho"
        done = subprocess.run([tacho, "import", f"{folder}/{name}.log", "-o", run], capture_output=True, text=True)
        if done.returncode:
            wrong.append(f"{name}: {done.stderr}")
            continue
        own = rows(run, 'SELECT count(*), min("index"), max("index"), avg("end" - start) / 1e6 FROM step')[0]
        wanted = log()[1]
        wrong += [f"{name}: {what}: {found} is not {value}" for what, found, value in zip(("steps", "first", "last"), own, wanted) if found != value]
        if own[3] is None or abs(own[3] / wanted[3] - 1) > wanted[4]:
            wrong.append(f"{name}: ms: {own[3]} is not {wanted[3]}")
    if wrong:
        sys.exit("\n".join(wrong))


def main(logs, make):
    """The command line of a script: make FOLDER, check FOLDER TACHO."""
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        check(sys.argv[2], sys.argv[3], logs)
