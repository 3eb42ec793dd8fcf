#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds what was fuzzed in a build folder to docs/fuzz-results.md, which sums over builds and machines.

    tests/fuzz/page.py BUILD REVISION

What was added is kept in BUILD/fuzz-cpu.added and not added again. REVISION: of the sources that were fuzzed.
"""
import os
import re
import sys
import time

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "fuzz-results.md")
ROW = re.compile(r"\| (fuzz_\w+) \| ([\d.]+) \| (\d+) \| (\d+) \| (.*) \|$")


def read_page():
    """{target: [hours, executions, findings, when last]}"""
    try:
        with open(PAGE, encoding="utf-8") as page:
            rows = [ROW.match(line.rstrip()) for line in page]
    except FileNotFoundError:
        return {}
    return {row[1]: [float(row[2]), int(row[3]), int(row[4]), row[5]] for row in rows if row}


def text_of(rows):
    hours = sum(row[0] for row in rows.values())
    return "\n".join(["# What was fuzzed", "",
                      "Processor time of each fuzz target (`make fuzz`, libFuzzer with ASan and UBSan), summed over builds and machines: `tests/fuzz/page.py` adds",
                      "what a build has fuzzed. A finding is an input that crashed, hung, leaked or broke what the target checks; each was mended before its row was written.", "",
                      "| target | CPU hours | executions | findings | last |", "|---|---|---|---|---|",
                      *(f"| {name} | {row[0]:.3f} | {row[1]} | {row[2]} | {row[3]} |" for name, row in sorted(rows.items())), "",
                      f"Together: {hours:.2f} CPU hours.", ""])


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    build, revision = sys.argv[1:]
    rows, own = read_page(), os.path.join(build, "fuzz-cpu")
    with open(own, encoding="utf-8") as lines:
        fresh = [line.split() for line in lines]
    for name, seconds, executions, findings in fresh:
        row = rows.setdefault(name, [0.0, 0, 0, ""])
        row[0] += float(seconds) / 3600
        row[1] += int(executions)
        row[2] += int(findings)
        row[3] = time.strftime("%Y-%m-%d", time.gmtime()) + " at " + revision
    with open(PAGE + ".new", "w", encoding="utf-8") as page:
        page.write(text_of(rows))
    os.replace(PAGE + ".new", PAGE)
    with open(own + ".added", "a", encoding="utf-8") as added:
        added.writelines("\t".join(row) + "\n" for row in fresh)
    os.remove(own)
    print(f"{len(fresh)} rows added to {os.path.relpath(PAGE)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
