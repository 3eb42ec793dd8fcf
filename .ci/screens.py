#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Screens of tacho as SVG, of runs that are recorded for them: .ci/screens.py BUILD FOLDER. They are drawn by this script, so they are always current."""
import html
import os
import subprocess
import sys
import tempfile

WIDTH, HEIGHT = 8.4, 17  # of a character of 14 px
SCREENS = {
    "report": ["report", "slow.tacho", "--width", "80", "--color=never"],
    "explain": ["report", "slow.tacho", "--explain", "1", "--width", "80", "--color=never"],
    "diff": ["diff", "slow.tacho", "fast.tacho", "--width", "80", "--color=never"],
    "top-80x24": ["top", "slow.tacho", "--batch", "-n", "1", "--against", "fast.tacho"],
    "top-120x40": ["top", "slow.tacho", "--batch", "-n", "1", "--size", "40x120"],
    "top-200x50": ["top", "slow.tacho", "--batch", "-n", "1", "--size", "50x200"],
    "top-ranks": ["top", "ranks.tacho", "--batch", "-n", "1", "--view", "ranks"],
    "ls": ["ls"],
}


def svg(title, text):
    lines = text.rstrip("\n").split("\n")
    columns, rows = max(map(len, lines)), len(lines)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * WIDTH + 32:.0f}" height="{rows * HEIGHT + 32}" role="img" '
           f'aria-label="{html.escape(title)}">',
           '<style>rect{fill:#fff}text{fill:#1b1f24;font:14px "DejaVu Sans Mono",Menlo,Consolas,monospace;white-space:pre}'
           '@media(prefers-color-scheme:dark){rect{fill:#16191d}text{fill:#e4e7eb}}</style>',
           '<rect width="100%" height="100%" rx="6"/>']
    for row, line in enumerate(lines):
        if line.strip():
            out.append(f'<text x="16" y="{row * HEIGHT + 28}" textLength="{len(line) * WIDTH:.1f}">{html.escape(line)}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    build, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    source = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
    tacho, train = build + "/tacho", build + "/train"
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "dumb"}
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        def run(*words):
            return subprocess.run(words, cwd=work, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout.decode()
        for name, workers in (("slow", "0"), ("fast", "2")):
            run(tacho, "run", "-o", name + ".tacho", "--", train, "gpt2-tiny", "--data", source + "/LICENSE", "--steps", "60", "--workers",
                workers, "--slow", "decode=0.03")
        run(sys.executable, source + "/tests/e2e/ranks/many_ranks.py", "ranks", "--slow", "41", "--format", "tacho", "--kernels", "4")
        run(tacho, "merge", "-o", "ranks.tacho", "ranks")
        for name, words in SCREENS.items():
            path = f"{folder}/{name}.svg"
            try:
                text = f"$ tacho {' '.join(words)}\n" + run(tacho, *words)
            except subprocess.CalledProcessError as error:  # beside other programs there may be no finding to explain
                print(f"{name}: left out: {error.stderr.decode().strip()}", file=sys.stderr)
                continue
            with open(path, "w") as file:
                file.write(svg(name, text))
            print(path)


main()
