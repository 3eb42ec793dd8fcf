#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long `tacho history list` and `trend` take with many runs.

    tests/bench/history.py BUILD [RUNS]

RUNS (100,000) of 50 recipes are imported into a database of their own, with the values of a small run. Medians of five calls.
"""
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

VALUES = [("step", "mean"), ("step", "median"), ("step", "p95"), ("class", "compute"), ("class", "input"), ("operator", "matmul.forward"),
          ("operator", "matmul.backward"), ("operator", "layernorm.forward"), ("operator", "attention.forward"), ("operator", "optimizer")]


def lines(count):
    rng = random.Random(1)
    for i in range(count):
        ms = 50 * rng.gauss(1, 0.024)
        values = [{"kind": kind, "name": name, "unit": "ms", "value": ms / (k + 1)} for k, (kind, name) in enumerate(VALUES)]
        yield json.dumps({"schema": "tacho-history-run/1", "key": f"{i:016x}", "begun_ns": (1_700_000_000 + 60 * i) * 10**9, "recipe": f"train.py --size {i % 50}",
                          "host": "a machine", "commit": f"{i // 100:040x}", "steps": 100, "environment": {"kernel": "6.1"}, "values": values})


def main():
    if not 2 <= len(sys.argv) <= 3:
        print(__doc__, file=sys.stderr)
        return 2
    tacho, count = os.path.abspath(sys.argv[1]) + "/tacho", int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, TACHO_HISTORY=folder + "/history.db")
        with open(folder + "/runs.jsonl", "w") as file:
            file.writelines(line + "\n" for line in lines(count))
        begun = time.perf_counter()
        subprocess.run([tacho, "history", "import", folder + "/runs.jsonl"], env=environment, check=True, stdout=subprocess.DEVNULL)
        print(f"import of {count} runs: {time.perf_counter() - begun:.1f} s, {os.path.getsize(folder + '/history.db') / 2**20:.0f} MiB")
        for words in (["list"], ["trend"], ["show", "latest"]):
            taken = []
            for _ in range(5):
                begun = time.perf_counter()
                subprocess.run([tacho, "history", *words], env=environment, check=True, stdout=subprocess.DEVNULL)
                taken.append(time.perf_counter() - begun)
            print(f"{' '.join(words)}: {statistics.median(taken):.3f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
