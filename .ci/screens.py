#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Screens of tacho, of runs that are recorded for them, and whether the screens in the documents are still those of the program.

usage: screens.py BUILD FOLDER                  writes screens as SVG into the folder
       screens.py BUILD --check [FOLDER]        says what in README.md and docs/ is no longer printed like that; exit status 1 if
                                                anything is. FOLDER keeps the runs and what was printed for the next look
       screens.py BUILD --write [DOCUMENT]...   puts what is printed now into the documents whose screens do not depend on the
                                                machine, and into these; look at it before it is committed

TACHO_TRACES names the folder of the shared traces (../shared/traces); without it screens of traces are not looked at.
SCREENS_SOURCE names another tree with the documents.
"""
import glob
import html
import os
import re
import shlex
import subprocess
import sys
import tempfile

WIDTH, HEIGHT = 8.4, 17  # of a character of 14 px
HERE = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
SOURCE = os.path.abspath(os.environ.get("SCREENS_SOURCE", HERE))
TRACES = os.path.abspath(os.environ.get("TACHO_TRACES") or HERE + "/../shared/traces")
TRACE = "kineto_tb_resnet50_num_workers_%d_steps16-21_rank0.json.gz"
PICTURES = {
    "report": "report slow.tacho --width 80 --color=never",
    "explain": "report slow.tacho --explain 1 --width 80 --color=never",
    "diff": "diff slow.tacho fast.tacho --width 80 --color=never",
    "top-80x24": "top slow.tacho --batch -n 1 --against fast.tacho",
    "top-120x40": "top slow.tacho --batch -n 1 --size 40x120",
    "top-200x50": "top slow.tacho --batch -n 1 --size 50x200",
    "top-ranks": "top ranks.tacho --batch -n 1 --view ranks",
    "ls": "ls",
}
# The last screen of a document: what makes the run, and parts of what commands print: (command, pattern of the first line, lines;
# 0: up to an empty line, None: all).
EXACT = {
    "README.md": ("traces", [(f"report {TRACE % 0} --width 100", ".", None)]),
    "docs/howto/compare.md": ("traces", [(f"diff {TRACE % 0} {TRACE % 4} --width 100", ".", 0)]),
    "docs/howto/slow-rank.md": ("ranks", [
        ("report ranks --width 80", "STRAGGLER", 0), ("top ranks --batch -n 1", " ranks +slow", 1),
        ("top ranks --batch -n 1 --view ranks", "Rank x step", 4)]),
}
# Screens of programs that are recorded, which differ from one machine to the next.
RECORDED = {
    "docs/howto/annotate-python.md": ("python", "report own.tacho --width 100"),
    "docs/howto/annotate-c.md": ("c", "report marks.tacho --width 100"),
    "docs/tutorial.md": ("demo", "report demo.tacho --width 80"),
}
FENCE = re.compile(r"^ *```([\w-]*)\n(.*?)^ *```$", re.M | re.S)
ROW = re.compile(r"^ ([a-z].*?) +[\d.]+ +([\d.]+)  [▏▎▍▌▋▊▉█]", re.M)
FINDING = re.compile(r" \d  ([A-Z_]+) ", re.M)
LABEL = re.compile(r"([A-Z][a-z][A-Za-z ]+?)(?::|  )")


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


class Runs:
    """A folder in which runs are made when they are first asked for."""

    def __init__(self, build, folder, demo_steps="24"):
        self.build, self.folder, self.demo_steps = build, folder, demo_steps
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "dumb", "TACHO_HISTORY": "off",
                            "XDG_CACHE_HOME": folder + "/cache", "PYTHONPATH": HERE + "/profiler/python"}

    def run(self, *words):
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{shlex.join(words)}: exit {done.returncode}: {done.stderr}")
        return done.stdout

    def tacho(self, words):
        kept = f"{self.folder}/printed-" + re.sub(r"\W+", "-", words)
        if not os.path.exists(kept):
            text = self.run(self.build + "/tacho", *words.split())
            with open(kept, "w") as file:
                file.write(text)
        return open(kept).read()

    def record(self, name, *command):
        self.run(self.build + "/tacho", "run", "-o", name + ".tacho", "--", *command)

    def train(self, name, workers):
        self.record(name, self.build + "/train", "gpt2-tiny", "--data", HERE + "/LICENSE", "--steps", "60", "--slow", "decode=0.03",
                    "--workers", workers)

    def make(self, what):
        mark = f"{self.folder}/made-{what}"
        if not os.path.exists(mark):
            getattr(self, "make_" + what)()
            open(mark, "w").close()

    def make_pictures(self):
        self.train("slow", "0")
        self.train("fast", "2")
        self.make_ranks("--format", "tacho", folder="nodes")
        self.tacho("merge -o ranks.tacho nodes")

    def make_ranks(self, *options, folder="ranks"):
        program = HERE + "/tests/e2e/ranks/many_ranks.py"
        self.run(sys.executable, program, folder, "--slow", "41", "--missing", "7", "--kernels", "4", *options)

    def make_demo(self):
        """The recording of `make demo`, without what follows it."""
        line = next(line for line in open(HERE + "/.ci/demo") if line.startswith("set -- run"))
        text = next(path for path in ("/usr/share/common-licenses", HERE + "/LICENSE") if os.path.exists(path))
        for word, value in (('"$1/train"', self.build + "/train"), ('"$text"', text), ('"$steps"', self.demo_steps)):
            line = line.replace(word, value)
        self.environment["OMP_NUM_THREADS"] = "1"
        self.record("demo", *line.split(" -- ")[2].split())

    def make_traces(self):
        for workers in (0, 4):
            os.symlink(f"{TRACES}/{TRACE % workers}", f"{self.folder}/{TRACE % workers}")

    def program(self, name, document, language):
        """The program that a document shows."""
        text = open(f"{SOURCE}/docs/howto/{document}.md").read()
        indent, code = re.search(rf"^( *)```{language}\n(.*?)^ *```$", text, re.M | re.S).groups()
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(re.sub(rf"^{indent}", "", code, flags=re.M))

    def make_python(self):
        self.program("own.py", "annotate-python", "python")
        self.record("own", sys.executable, "own.py")

    def make_c(self):
        self.program("marks.c", "annotate-c", "c")
        self.run("cc", f"-I{HERE}/include", f"-I{self.build}/nvtx/include", "marks.c", "-o", "marks", "-ldl")
        self.record("marks", "./marks")

    def part(self, command, first, lines):
        """The lines of what a command prints that begin with one that matches."""
        text = self.tacho(command).rstrip("\n").split("\n")
        begin = next((i for i, line in enumerate(text) if re.match(first, line)), None)
        if begin is None:
            raise SystemExit(f"tacho {command}: no line matches '{first}'")
        text = text[begin:]
        end = text.index("") if lines == 0 else lines
        return "\n".join(line.rstrip() for line in text[:end])


def write_pictures(runs, folder):
    os.makedirs(folder, exist_ok=True)
    runs.make("pictures")
    for name, words in PICTURES.items():
        if name == "explain" and not FINDING.search(runs.tacho("report slow.tacho")):
            print(f"{name}: left out: beside other programs there may be no finding to explain", file=sys.stderr)
            continue
        with open(f"{folder}/{name}.svg", "w") as file:
            file.write(svg(name, f"$ tacho {words}\n" + runs.tacho(words)))
        print(f"{folder}/{name}.svg")


def screens_of(text):
    """What a document shows as printed: blocks without a language."""
    return [block for block in FENCE.finditer(text) if not block[1]]


def last_screen(name):
    """The text of a document, and where its last screen is in it."""
    text = open(f"{SOURCE}/{name}").read()
    found = screens_of(text)
    if not found:
        raise SystemExit(f"{name}: no screen")
    return text, found[-1].span(2)


def put(name, screen):
    text, (begin, end) = last_screen(name)
    with open(f"{SOURCE}/{name}", "w") as file:
        file.write(text[:begin] + screen + "\n" + text[end:])


def exact_screens(runs):
    """(document, its screen as it is printed now)"""
    for name, (what, parts) in EXACT.items():
        if what == "traces" and not os.path.isdir(TRACES):
            print(f"note: no shared traces: the screen of {name} is not looked at")
            continue
        runs.make(what)
        yield name, "\n\n".join(runs.part(*part) for part in parts)


def first_screen(runs, what, command):
    """Up to the sum of the step time, else up to the verdict."""
    runs.make(what)
    text = runs.tacho(command)
    end = re.search(r"^ (?:[\d.]+ steps/s)? *[\d.]+ +100\.0$", text, re.M)
    return text[:end.end()] if end else "\n\n".join(text.split("\n\n")[:2])


def bones(screen):
    """What of a first screen does not depend on the speed of the machine: its head without numbers, findings, rows that are not small."""
    head = re.sub(r"\d[\d.,]*(?: (?:ns|µs|ms|s)\b)?", "N", screen.split("\n")[0])
    rows = {row for row, percent in ROW.findall(screen) if float(percent) >= 10}
    return head, set(FINDING.findall(screen)), rows


def compare_recorded(name, runs, what, command):
    text, (begin, end) = last_screen(name)
    (head, findings, rows), now = bones(text[begin:end]), first_screen(runs, what, command)
    head_now, findings_now, _ = bones(now)
    if head != head_now:
        yield f"{name}: begins with '{head}', now '{head_now}'"
    findings -= {"OTHER_PROGRAMS"}
    if not findings <= findings_now and "OTHER_PROGRAMS" not in findings_now:
        yield f"{name}: {findings - findings_now} are no longer found"
    missing = rows - set(row for row, _ in ROW.findall(now))
    if missing:
        yield f"{name}: no longer rows of the step time: {missing}"


def literals():
    """All texts that reports are made of; what is put in when they are printed is a zero byte."""
    files = [f for room in ("analyzers", "reports") for f in glob.glob(f"{HERE}/{room}/**/*.[ch]", recursive=True)]
    text = "".join(re.sub(r'"\s*"', "", open(file).read()).replace('\\"', '"') for file in files)
    return re.sub(r'%[-+.*\d]*(?:z|ll|l)?[a-zA-Z]|%" PRI\w+ "', "\0", text)


def is_said(words, said):
    """In one text, with at most one word or a text of several words put into it, or as a text that was put into another one."""
    def has(*parts):
        return all(" ".join(part) in said for part in parts)

    count = len(words)
    return (has(words) or count > 2 and any(has(words[:at] + ["\0"] + words[at + 1:]) for at in range(count))
            or any(has(words[:at] + ["\0"], ['"' + words[at]] + words[at + 1:]) for at in range(1, count))
            or any(has(words[:at] + ["\0"] + words[end:]) and f'"{" ".join(words[at:end])}"' in said
                   for at in range(count) for end in range(at + 2, count)))


def old_words(name, screen, said):
    """What in a first screen no report says."""
    lines = screen.split("\n")
    for number, line in enumerate(lines):
        finding, row, label = FINDING.match(line), ROW.match(line), LABEL.match(line)
        if finding and f'"{finding[1]}"' not in said:
            yield f"{name}: no finding is called {finding[1]}"
        elif finding:
            action = re.sub(r"\S*…$", "", lines[number + 1].strip())
            for part in re.split(r"[\d=():;,\[\]]+", action):
                if len(part.strip()) > 8 and not is_said(part.split(), said):
                    yield f"{name}: {finding[1]} no longer says '{part.strip()}'"
        elif row and f'"{row[1]}"' not in said:
            yield f"{name}: no row of the step time is called '{row[1]}'"
        elif label and '"' + label[1] not in said:
            yield f"{name}: nothing is called '{label[1]}'"


def check(runs):
    wrong, said, seen = [], literals(), 0
    for path in [SOURCE + "/README.md"] + sorted(glob.glob(SOURCE + "/docs/**/*.md", recursive=True)):
        for screen in screens_of(open(path).read()):
            if re.search(r" · \d+ ranks? · ", screen[2]):
                wrong += old_words(os.path.relpath(path, SOURCE), screen[2], said)
                seen += 1
    for name, screen in exact_screens(runs):
        text, (begin, end) = last_screen(name)
        if text[begin:end] != screen + "\n":
            wrong.append(f"{name}: its screen is now\n{screen}")
    for name, (what, command) in RECORDED.items():
        wrong += compare_recorded(name, runs, what, command)
    print("\n".join(wrong) or f"{seen} screens in the words of the reports, {len(EXACT) + len(RECORDED)} as they are printed now")
    return 1 if wrong else 0


def write(runs, names):
    for name, screen in exact_screens(runs):
        put(name, screen)
    loaded = []
    for name in names:
        screen = first_screen(runs, *RECORDED[name])
        if "OTHER_PROGRAMS" in FINDING.findall(screen) or "short of cores" in " ".join(screen.split()):
            loaded.append(name)
        else:
            put(name, screen)
    if loaded:
        print(f"other programs use this machine; left as they are: {', '.join(loaded)}")
    return 1 if loaded else 0


def main():
    build, what, *more = sys.argv[1:]
    build = os.path.abspath(build)
    if what == "--check" and more:
        os.makedirs(more[0], exist_ok=True)
        return check(Runs(build, os.path.abspath(more[0])))
    with tempfile.TemporaryDirectory() as folder:
        if what == "--check":
            return check(Runs(build, folder))
        if what == "--write":
            return write(Runs(build, folder, "80"), more)
        write_pictures(Runs(build, folder), os.path.abspath(what))
    return 0


if __name__ == "__main__":
    sys.exit(main())
