#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks for words that an engineer of the field would not use, in everything that people read.

usage: tests/lint/words.py [ROOT] [--comments]

Reads documents (*.md), every string literal of the C and C++ sources outside tests/ (messages, reports, help and
manual pages come from them), the strings of the Python hook, and the page's own HTML script. With --comments it
reads the comments of the sources as well. Each row of WORDS names a phrase and what the field says instead; ALLOWED names the
places where a phrase is meant literally, and why. Exit status 1 when something is found.
"""
import os
import re
import sys

# phrase (regular expression, without regard to case) -> what the field says
WORDS = (
    (r"what stands on (it|the path)", "operations on the critical path"),
    (r"\bstretch(es)?\b", "segment"),
    (r"\bthink\b", "untraced host time"),
    (r"without compute", "non-compute time"),
    (r"launch(es)? late", "launch-bound"),
    (r"\bmeanwhile\b", "during ..., in the meantime"),
    (r"\bhand-over", "dependency"),
    (r"without a core", "run-queue wait"),
    (r"\bnot counted\b", "untracked (memory), excluded (steps)"),
    (r"per 1 % less of", "sensitivity: step gain per 1 % reduction"),
    (r"what asked for device time", "GPU time by operator"),
    (r"beside compute", "overlapped with compute"),
    (r"\b(matrix )?products\b", "GEMMs"),
    (r"\bwrong if\b", "invalid if, assumptions"),
    (r"\bleft out\b", "excluded"),
    (r"\b(GOOD|BAD)\b", "baseline, candidate"),
    (r"waits? for the loader", "data wait"),
    (r"brings? nothing", "no gain on its own"),
    (r"\bthat is none\b|\bis none\b|\bare none\b", "malformed; not a ...; absent"),
    (r"is no (edit|value|run|step|option|word|number|file|folder|trace)\b", "invalid ..., not a ..."),
    (r"is not a value it takes", "invalid value"),
    (r"one word too many", "unexpected argument"),
    (r"not the beginning of one option only", "ambiguous option"),
    (r"of one GPU nothing is missing", "not needed on a single GPU"),
    (r"so manieth", "every n-th"),
    (r"text of this machine", "local text"),
    (r"\b(nobody|somebody)\b", "no one, or the name of who it is; use a passive sentence"),
    (r"\bstands? (on|in|below|behind|beside|above|there|for itself)\b", "is in, depends on, follows, is next to"),
    (r"takes? for granted", "assumes"),
    (r"\btold apart\b", "distinguished"),
    (r"\b(tells|told) (nothing|what|which|by)\b", "says, shows, reports"),
)
# (file name pattern, phrase pattern, reason)
ALLOWED = (
    (r"^tests/lint/words\.py$", r".", "the list itself"),
    (r"^docs/(graph|advise|report-json|definitions)\.md$", r"^think$", "the key of the cause in JSON and of --what-if"),
    (r"^docs/glossary\.md$", r".", "names the old word beside the term for readers of earlier reports"),
    (r"^docs/schema\.md$", r"^not counted$", "a stored value of the run keys counter.NAME"),
    (r"^analyzers/(graph/causes|graph/graph|replay/what_if_edits|replay/what_if_parse)\.[ch]$", r"^think$", "a key of JSON and of --what-if"),
    (r"^profiler/collector/collector\.h$", r"^not counted$", "status of a hardware counter, stored in files"),
    (r"^reports/words/phrase\.h$", r"think", "the key of the cause in JSON, translated there"),
    (r"^cli/commands/cmd_advise\.c$", r"\bthink\b", "the name of an edit: --what-if think=0.5x"),
)
C_TOKENS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
LEFT_OUT = ("build", "tests", ".git")


def files(root):
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(d for d in subfolders if not d.startswith((".", "build")))
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root)
            if path.startswith("tests/"):
                continue
            if name.endswith(".md") or (name.endswith((".c", ".h", ".cpp", ".py", ".js"))):
                yield path


def pieces(path, text, comments):
    """Yields (line number, text) of what people read in a file; adjacent string literals are one text."""
    if path.endswith(".md"):
        for number, line in enumerate(text.split("\n"), 1):
            yield number, line
        return
    if path.endswith((".py", ".js")):
        for match in re.finditer(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', text):
            yield text.count("\n", 0, match.start()) + 1, match[0]
        return
    start, joined, end = 0, "", 0
    for match in C_TOKENS.finditer(text):
        if match[0].startswith("/"):
            if comments:
                yield text.count("\n", 0, match.start()) + 1, re.sub(r"\s*\n\s*\*?\s*", " ", match[0])
            continue
        if match[0].startswith("'") or text[text.rfind("\n", 0, match.start()) + 1 : match.start()].lstrip().startswith("#include"):
            continue
        if joined and text[end : match.start()].strip() == "":
            joined += match[0][1:-1]
        else:
            if joined:
                yield text.count("\n", 0, start) + 1, joined
            start, joined = match.start(), match[0][1:-1]
        end = match.end()
    if joined:
        yield text.count("\n", 0, start) + 1, joined


def main():
    words = [word for word in sys.argv[1:] if word != "--comments"]
    root = words[0] if words else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    patterns = [(re.compile(phrase, 0 if phrase.isupper() or "GOOD" in phrase else re.I), instead) for phrase, instead in WORDS]
    found = 0
    for path in files(root):
        with open(os.path.join(root, path), errors="replace") as file:
            text = file.read()
        for number, piece in pieces(path, text, "--comments" in sys.argv):
            for pattern, instead in patterns:
                match = pattern.search(piece)
                if not match or any(re.search(p, path) and re.search(a, match[0]) for p, a, _ in ALLOWED):
                    continue
                found += 1
                around = piece[max(0, match.start() - 40) : match.end() + 40].strip()
                print(f"{path}:{number}: '{match[0]}': {instead}: ...{around}...")
    print(f"words: {found} found" if found else "words: none of the list found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
