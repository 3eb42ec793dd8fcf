# SPDX-License-Identifier: Apache-2.0
"""Compares two programs that do the same, in turns: while one makes a block of steps the other one sleeps, so that whatever else
happens on the machine meets both. The program is hook_loop.py.

usage: hook_turns.py SECONDS COMMAND... -- COMMAND...      JSON on stdout: the time of blocks of both
"""

import json
import os
import subprocess
import sys
import tempfile
import time

BLOCK_MS = 60


class Program:
    def __init__(self, command, folder, name):
        ways = [os.path.join(folder, name + way) for way in ("in", "out")]
        for way in ways:
            os.mkfifo(way)
        self.process = subprocess.Popen(command, env=dict(os.environ, TURN_IN=ways[0], TURN_OUT=ways[1]), stdout=2)
        self.to, self.back = open(ways[0], "w"), open(ways[1])

    def block(self, steps):
        """Time of so many steps, in ns."""
        print(steps, file=self.to, flush=True)
        return int(self.back.readline())

    def end(self):
        self.to.close()
        return self.process.wait()


def main():
    seconds, cut = float(sys.argv[1]), sys.argv.index("--")
    with tempfile.TemporaryDirectory() as folder:
        both = [Program(sys.argv[2:cut], folder, "a"), Program(sys.argv[cut + 1 :], folder, "b")]
        for p in both:
            p.block(20)
        ms = min(p.block(5) for p in both) / 5e6
        steps, pairs, begin = max(1, round(BLOCK_MS / ms)), [], time.monotonic()
        while time.monotonic() - begin < seconds:
            order = (0, 1) if len(pairs) % 2 else (1, 0)
            took = {i: both[i].block(steps) for i in order}
            pairs.append((took[0], took[1]))
        ended = [p.end() for p in both]
    print(json.dumps({"pairs": pairs, "steps": steps}))
    sys.exit(max(ended) != 0)


main()
