#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Documents: every link leads to a file and a heading that are there, every document is listed, and the commands and options that they
# name are those of the program; so are the targets of make and the files of this tree.
set -u
TACHO=${TACHO:-${BUILD:-build}/tacho}
top=$(cd "$(dirname "$0")/../../.." && pwd)
command -v python3 > /dev/null || { echo "needs the program python3"; exit 77; }
python3 - "$top" "$TACHO" << 'PY'
import glob, os, re, subprocess, sys

top, tacho = sys.argv[1], os.path.abspath(sys.argv[2])
os.chdir(top)
wrong = []
files = sorted(glob.glob("docs/*.md") + glob.glob("docs/howto/*.md")) + ["README.md", "CONTRIBUTING.md"]


def anchors(name):
    heads = re.findall(r"^#+ (.*)$", open(name).read(), re.M)
    return [re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in heads]


for name in files:
    for target in re.findall(r"\]\(([^)\s]+)\)", open(name).read()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if not os.path.exists(path):
            wrong.append("%s: %s is not there" % (name, target))
        elif anchor and path.endswith(".md") and anchor not in anchors(path):
            wrong.append("%s: %s: no such heading" % (name, target))

listed = set(re.findall(r"\]\(([\w-]+\.md)\)", open("docs/README.md").read()))
for name in glob.glob("docs/*.md"):
    if os.path.basename(name) not in listed | {"README.md"}:
        wrong.append("%s is not listed in docs/README.md" % name)

pages = set(re.findall(r"\]\(([\w-]+\.md)\)", open("docs/howto/README.md").read()))
for name in glob.glob("docs/howto/*.md"):
    if os.path.basename(name) not in pages | {"README.md"}:
        wrong.append("%s is not listed in docs/howto/README.md" % name)

sources = "".join(open(f, errors="replace").read() for r in ("analyzers", "reports", "store", "cli", "libtrain", "tests/unit", "include")
                  for f in glob.glob(r + "/**/*.[ch]", recursive=True))
for name in ("docs/adding-an-analyzer.md", "CONTRIBUTING.md"):
    for word in re.findall(r"`([A-Za-z0-9]+_[A-Za-z0-9_]*[A-Za-z0-9])(?:\(|`)", open(name).read()):
        if word != "module_noun_verb" and not re.search(r"\b%s\b" % word, sources) and not glob.glob("tests/**/%s.*" % word, recursive=True):
            wrong.append("%s: nothing is called %s" % (name, word))

commands = {}


def options(command):
    if command not in commands:
        got = subprocess.run([tacho, command, "--help"], capture_output=True, text=True)
        commands[command] = set(re.findall(r"--[a-z][a-z-]*", got.stdout)) if got.returncode == 0 else None
    return commands[command]


def code(text):
    """What a document shows as typed: between single backticks, lines of code blocks (indented or fenced), without what it prints."""
    blocks = re.findall(r"^ *```([\w-]*)\n(.*?)^ *```$", text, re.M | re.S)
    fenced = [block for language, block in blocks if language in ("", "sh", "bash", "yaml")]
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S)
    lines = "\n".join(fenced).splitlines() + re.findall(r"^ {4,}(?![-*|])(.*)$", text, re.M)
    return re.findall(r"`([^`\n]+)`", text) + [line for line in lines if not re.match(r" *tacho: ", line)]


said = 0
for name in files:
    for line in (re.split(r" -- |[|>#;&)]", part + " ")[0] for text in code(open(name).read())
                 for part in re.findall(r"(?:^|[ '/(])tacho ((?!is |and |was |does )[a-z]+ .*|[a-z]+$)", text)):
        command = re.match(r"([a-z]+)(?= |$)", line)
        known = options(command.group(1))
        if known is None:
            wrong.append("%s: no command 'tacho %s'" % (name, command.group(1)))
            continue
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", line):
            said += 1
            if option not in known and command.group(1) != "train":
                wrong.append("%s: tacho %s has no %s" % (name, command.group(1), option))
assert said > 150, said

makefile = open("Makefile").read()
targets = set(re.findall(r"^([a-z][a-z-]*) *:", makefile, re.M) + " ".join(re.findall(r"^\.PHONY:(.*)$", makefile, re.M)).split())
rooms = "|".join(re.escape(name) for name in os.listdir(".") if os.path.isdir(name) and not name.startswith(("build", ".git")))
places = 0
for name in files:
    for text in code(open(name).read()):
        for words in re.findall(r"^make ((?:[\w-]+ ?)+)(?![=\w])", text):
            wrong += ["%s: make has no target %s" % (name, word) for word in words.split() if word not in targets and word != "TARGET"]
        path = re.fullmatch(r"((?:%s)/[\w./*-]+)(?: .*)?" % rooms, text)
        if path and not re.search(r"NAME|NN_|_N\.|ROOM", path[1]):
            places += 1
            if not glob.glob(path[1]) and not path[1].endswith("_"):
                wrong.append("%s: %s is not there" % (name, path[1]))
assert places > 100, places
print("\n".join(wrong))
sys.exit(bool(wrong))
PY
