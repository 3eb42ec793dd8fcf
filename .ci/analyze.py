#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Static analysis: gcc -fanalyzer, clang-tidy (.clang-tidy) and cppcheck over the sources, against a triaged baseline.

  .ci/analyze.py [--changed | --list] [--seconds=N] BUILD [FILE...]

  --changed   only the files that differ from the branch point with main (on main: from the commit before), for CHANGED_LIMIT
              seconds at most unless --seconds says otherwise
  --seconds   nothing is begun after so many: how much is left then is said, and fails nothing
  --list      prints every finding as a row of the baseline and judges nothing
  BUILD       a build folder: its probe says which libraries there are, and generated files are in it

What a tool said of a file is kept in BUILD/analyze, by the tool, its flags and the preprocessed source: a second run analyses only
what has changed, and a run over all files can be done in parts.

A row of .ci/analyze.tsv accepts a finding: file, tool, check, function, reason, separated by tabs. There is no line number in it,
so that it stays valid when code moves. A finding without a row fails; a row that nothing matches in a run over all files is
named, so that it can be removed. A file that a tool does not finish within TIMEOUT seconds is named too, and fails nothing.

Exit status: 0, 1 with a finding that is not in the baseline, 77 when no tool is installed.
"""
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

TIMEOUT = 180
CHANGED_LIMIT = 600
BASELINE = ".ci/analyze.tsv"
ROOMS = ("profiler", "store", "cli", "include", "history", "tuner", "monitor", "libtrain", "analyzers", "planner", "reports", "tui", "workloads")
DEFINITION = re.compile(r"^(?:[A-Za-z_][\w\s*]*[\s*])?([A-Za-z_]\w*)\(")
WARNING = re.compile(r"^([^\s:][^:]*):(\d+):(?:\d+:)? (?:warning|error): (.*) \[([^\]]*)\]$")
LOOPS = {"json_object_foreach(": "-Djson_object_foreach(object,key,value)=while ((key = next_key(object)) && (value = next_value(object)))",
         "json_array_foreach(": "-Djson_array_foreach(array,index,value)=while ((index = next_index(array)) && (value = next_value(array)))"}
FAILED = re.compile(r"^([^\s:][^:]*):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$")


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def flags_of(build):
    """What the compiler is told: the probe's own flags of this machine."""
    flags = ["-std=c11", "-D_GNU_SOURCE", '-DTACHO_VERSION=""', "-Iinclude", "-I.", f"-I{build}/gen"]
    with open(f"{build}/config.mk") as probe:
        for line in probe:
            name, _, value = line.partition("=")
            if "_CFLAGS" in name and "HARDEN" not in name and "CXX" not in name:
                flags += value.split()
    return [flag for flag in flags if not flag.startswith("-fopenmp")]


def loops_of(path):
    """The loops of jansson that a file has: cppcheck reads no header of it, and leaves a file with a macro that it does not know."""
    if not os.path.isfile(path):
        return []
    with open(path, errors="replace") as source:
        text = source.read()
    return [define for name, define in LOOPS.items() if name in text]


def tools_of(build):
    flags = flags_of(build)
    tools = {}
    if shutil.which("gcc"):
        tools["gcc"] = lambda path: ["gcc", "-c", "-o", "/dev/null", "-O1", "-fanalyzer", "-fdiagnostics-plain-output",
                                     "-fdiagnostics-path-format=none", *flags, path]
    if shutil.which("clang-tidy"):
        tools["clang-tidy"] = lambda path: ["clang-tidy", "--quiet", path, "--", *flags]
    if shutil.which("cppcheck"):
        # generated initializers are not read: cppcheck does not see the files that they include
        defines = [flag for flag in flags if flag.startswith(("-D", "-I"))]
        tools["cppcheck"] = lambda path: ["cppcheck", "--quiet", "--enable=warning,portability", "--std=c11", "--language=c",
                                          "-D__x86_64__",
                                          "--template={file}:{line}: warning: {message} [{id}]", *defines, *loops_of(path), path]
    return tools


def versions(tools):
    return "".join(run(tool, "--version") for tool in sorted(tools))


def function_at(path, number, cache={}):
    """The function or macro that a line belongs to: what begins in the first column before it."""
    if path not in cache:
        try:
            with open(path, errors="replace") as source:
                cache[path] = source.read().split("\n")
        except OSError:
            cache[path] = []
    for line in reversed(cache[path][:number]):
        macro = re.match(r"#define (\w+)", line)
        if macro:
            return macro.group(1)
        found = DEFINITION.match(line)
        if found and not line.endswith(";"):
            return found.group(1)
    return "-"


def kept_at(folder, command, path, flags, rules):
    """Where the findings of a command are kept; None: the source cannot be preprocessed."""
    source = subprocess.run(["gcc", "-E", *flags, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if source.returncode:
        return None
    of = hashlib.sha256(json.dumps([command, rules]).encode() + source.stdout).hexdigest()
    return os.path.join(folder, of)


def findings(tool, command, path, deadline, kept):
    """{row: message}: what a tool says of a file, or has said; None where it does not finish, or would begin after the deadline."""
    if kept and os.path.exists(kept):
        with open(kept) as file:
            return {tuple(row): text for row, text in json.load(file)}
    if time.time() > deadline:
        return None
    found = ask(tool, command)
    if kept and found is not None:
        with open(kept + ".part", "w") as file:
            json.dump(list(found.items()), file)
        os.replace(kept + ".part", kept)
    return found


def ask(tool, command):
    """Runs a tool and reads its findings."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return None
    found = {}
    for line in done.stdout.split("\n"):
        match = WARNING.match(line)
        if not match:
            failed = FAILED.match(line)
            if failed and tool != "clang-tidy":
                found[(failed.group(1), tool, "error", "-")] = line
            continue
        where, number, text, check = match.groups()
        where = os.path.relpath(where) if os.path.isabs(where) else os.path.normpath(where)
        if where.startswith("..") or not where.startswith(ROOMS):
            continue
        check = re.sub(r"^CWE-\d+\] \[", "", check).removeprefix("-W")
        check = check.split(",")[0]
        found[(where, tool, check, function_at(where, int(number)))] = f"{where}:{number}: {text} [{check}]"
    return found


def changed():
    base = run("git", "merge-base", "HEAD", "main").strip()
    if not base or base == run("git", "rev-parse", "HEAD").strip():
        base = "HEAD~1"
    return run("git", "diff", "--name-only", "--diff-filter=d", base).split()


def baseline():
    rows = {}
    with open(BASELINE) as table:
        for number, line in enumerate(table, 1):
            if line.startswith("#") or not line.strip():
                continue
            cells = line.rstrip("\n").split("\t")
            if len(cells) != 5 or not cells[4].strip():
                sys.exit(f"analyze: {BASELINE}:{number}: five cells are wanted: file, tool, check, function, reason")
            rows[tuple(cells[:4])] = cells[4]
    return rows


def main():
    arguments = sys.argv[1:]
    seconds = [argument for argument in arguments if argument.startswith("--seconds=")]
    arguments = [argument for argument in arguments if argument not in seconds]
    mode = arguments.pop(0) if arguments and arguments[0].startswith("--") else ""
    if not arguments or mode not in ("", "--changed", "--list"):
        sys.exit(__doc__)
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    build, names = arguments[0], arguments[1:]
    tools = tools_of(build)
    if not tools:
        print("lint-deep: none of gcc, clang-tidy and cppcheck is installed: nothing was analysed")
        sys.exit(77)
    for tool in sorted({"gcc", "clang-tidy", "cppcheck"} - set(tools)):
        print(f"lint-deep: no {tool}: nothing was analysed with it")
    everything = not names and mode != "--changed"
    names = names or (changed() if mode == "--changed" else run("git", "ls-files").split())
    names = [name for name in names if name.endswith(".c") and name.startswith(ROOMS)]
    names.sort(key=lambda name: ROOMS.index(name.split("/")[0]))
    accepted, used, new, begun = baseline(), set(), {}, time.time()
    limit = CHANGED_LIMIT if mode == "--changed" else float("inf")
    limit = float(seconds[-1].split("=")[1]) if seconds else limit
    flags, folder, rules = flags_of(build), os.path.join(build, "analyze"), run("cat", ".clang-tidy") + versions(tools)
    os.makedirs(folder, exist_ok=True)

    def analyse(item):
        tool, command, name = item
        return findings(tool, command, name, begun + limit, kept_at(folder, command, name, flags, rules))

    left = set()
    work = [(tool, make(name), name) for name in names for tool, make in tools.items()]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (tool, _, name), found in zip(work, pool.map(analyse, work)):
            if found is None and time.time() > begun + limit:
                left.add(name)
                continue
            if found is None:
                print(f"lint-deep: {name}: {tool} does not finish within {TIMEOUT} s", flush=True)
                continue
            for row, text in found.items():
                if mode == "--list" and row not in new:
                    print("\t".join(row), text.split(": ", 1)[1], sep="\t", flush=True)
                (used.add(row) if row in accepted else new.setdefault(row, text))
    if mode == "--list":
        return 0
    for text in new.values():
        print(text)
    for row in sorted(row for row in set(accepted) - used if everything and not left and row[1] in tools):
        print(f"lint-deep: nothing matches this row any more: {' '.join(row)}")
    if left:
        print(f"lint-deep: {len(left)} files are left after {limit:.0f} s, from {next(name for name in names if name in left)} on: run it again")
    print(f"lint-deep: {len(names)} files, {', '.join(tools)}: {len(new)} new, {len(used)} accepted, {time.time() - begun:.0f} s")
    return 1 if new else 0


sys.exit(main())
