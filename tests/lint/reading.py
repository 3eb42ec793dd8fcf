#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how the C sources read, prints the table, and fails where a figure is beyond its limit.

usage: tests/lint/reading.py [ROOT]

Counts the .c files outside tests/ (needs Universal Ctags for names and functions; exit status 77 without it):
  names       parameters and locals; `i` and `j` are left out, because they are what a loop index is called
  ternaries   statements (what lies between `;`, `{` and `}`) with two or more `?`
  comments    lines that lie in a comment
  functions   static functions of 25 lines or more need a comment directly above their first line
  lengths     lines of a function from its first line to its closing brace
The limits of the lengths are those of lines of 100 columns: the same functions had a median of 11 and a 90th percentile
of 27 lines with 128 columns. Bring them back there rather than raising the limits.
Files longer than 600 lines fail unless they are listed in LONG_TABLES, with the reason.
"""
import collections
import os
import re
import statistics
import subprocess
import sys

LONG_TABLES = {
    "analyzers/result/metrics.c": "one row for each metric",
}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
CODE_ONLY = re.compile(r'/\*.*?\*/|//[^\n]*|"(\\.|[^"\\\n])*"', re.S)
LONG_FUNCTION = 25
LONG_FILE = 600
LONG_LINE = 100


def ctags(root, files, kinds):
    """Returns one dictionary a tag: name, path, and the fields `line` and `end`."""
    command = ["ctags", "-f-", "--languages=C", "--kinds-C=" + kinds, "--fields=ne", "-L-"]
    text = subprocess.run(command, cwd=root, input="\n".join(files), capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        words = line.split("\t")
        if not line.startswith("!") and len(words) > 2:
            fields = dict(word.split(":", 1) for word in words[3:] if ":" in word)
            yield {"name": words[0], "path": words[1], **fields}


def sources(root):
    """Returns path -> text of the .c files outside tests/ and build folders."""
    found = {}
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [d for d in subfolders if not d.startswith((".", "build"))]
        for name in files:
            path = os.path.relpath(os.path.join(folder, name), root)
            if name.endswith(".c") and not path.startswith("tests/"):
                with open(os.path.join(root, path), errors="replace") as file:
                    found[path] = file.read()
    return found


def count_functions(root, text):
    """Returns the lengths of all functions, and the long static ones that have no comment above them."""
    lengths, long_static, bare = [], 0, []
    for tag in ctags(root, text, "f"):
        if "line" not in tag or "end" not in tag:
            continue
        first, last = int(tag["line"]), int(tag["end"])
        lengths.append(last - first + 1)
        rows = text[tag["path"]].split("\n")
        if last - first + 1 < LONG_FUNCTION or not rows[first - 1].startswith("static"):
            continue
        long_static += 1
        above = rows[first - 2].strip() if first > 1 else ""
        if not above.endswith("*/") and not above.startswith("//"):
            bare.append(f"{tag['path']}:{first}: {tag['name']}")
    return sorted(lengths), long_static, bare


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    version = subprocess.run(["sh", "-c", "ctags --version"], capture_output=True, text=True).stdout
    if "Universal Ctags" not in version:
        print("reading: no Universal Ctags: how the sources read was not measured")
        return 77
    text = sources(root)
    names = [tag["name"] for tag in ctags(root, text, "lz") if tag["name"] not in ("i", "j")]
    lengths, long_static, bare = count_functions(root, text)
    lines = sum(source.count("\n") for source in text.values())
    comments = sum(m[0].count("\n") + 1 for source in text.values() for m in COMMENT.finditer(source))
    ternaries = [
        path
        for path, source in text.items()
        for statement in re.split("[;{}]", CODE_ONLY.sub(" ", source))
        if statement.count("?") >= 2
    ]
    too_wide = sum(len(row) > LONG_LINE for source in text.values() for row in source.split("\n"))
    too_long = [
        (path, source.count("\n"))
        for path, source in text.items()
        if source.count("\n") > LONG_FILE and path not in LONG_TABLES
    ]
    one_letter = 100 * sum(len(name) == 1 for name in names) / len(names)
    rows = (
        ("names of one letter, %", one_letter, "<=", 20),
        ("median length of a name", statistics.median(map(len, names)), ">=", 4),
        ("statements with two ternaries, per 1,000 lines", 1000 * len(ternaries) / lines, "<=", 0.5),
        ("comment lines, %", 100 * comments / lines, ">=", 8),
        (f"lines over {LONG_LINE} columns, %", 100 * too_wide / lines, "<=", 2),
        (f"static functions of {LONG_FUNCTION} lines without a comment, %", 100 * len(bare) / max(1, long_static), "<=", 10),
        ("lines of a function, median", statistics.median(lengths), "<=", 11),
        ("lines of a function, 90th percentile", lengths[9 * len(lengths) // 10], "<=", 27),
        (f"files over {LONG_FILE} lines that are no tables", len(too_long), "<=", 0),
    )
    failed = False
    for what, value, relation, limit in rows:
        holds = value <= limit if relation == "<=" else value >= limit
        failed |= not holds
        print(f"{'ok  ' if holds else 'FAIL'}  {what:<52} {value:8.2f}  {relation} {limit}")
    if failed:
        print("\n".join(f"{path}: {length} lines" for path, length in too_long))
        print("statements with two ternaries:", collections.Counter(ternaries).most_common(8))
        print("long static functions without a comment:", *bare[:20], sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
