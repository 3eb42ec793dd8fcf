#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds circles of files and of folders among the objects of a build, and of folders among the includes.

usage: tests/lint/circles.py BUILD [ROOT]

An arrow leads from the file that uses a global symbol to the file that defines it (`nm -g`). Includes are not
enough to see this: a header in the right place may declare a function that is defined further up. Fails on a
circle of files, on a circle of folders, on a folder with more than 40 source files, and on a build without
objects. A program's symbols are looked up among the objects of its own top-level folder first, because tacho,
libtacho.so and train may each define a function of the same name.
"""
import collections
import os
import re
import subprocess
import sys

MOST_FILES = 40
# Folders that are not part of the house: a build of its own inside the build folder, and the tests.
LEFT_OUT = ("tests",)


def symbols(paths):
    """Returns object -> (the global symbols that it defines, those that it uses)."""
    found = {path: (set(), set()) for path in paths}
    output = subprocess.run(["nm", "-g", "-A", *paths], capture_output=True, text=True, check=True).stdout
    for line in output.splitlines():
        path, _, symbol = line.rpartition(":")
        words = symbol.split()
        if len(words) == 3 and words[1] in "TDBRVWC":
            found[path][0].add(words[2])
        elif len(words) == 2 and words[0] == "U":
            found[path][1].add(words[1])
    return found


def objects(build, root):
    """Returns the objects of the build whose source is in the tree: source -> object."""
    found = {}
    top = os.path.join(build, "obj")
    for folder, _, files in os.walk(top):
        for name in files:
            stem = os.path.relpath(os.path.join(folder, name), top)[:-2]
            if not name.endswith(".o") or stem.split(os.sep)[0] in LEFT_OUT:
                continue
            for ending in (".c", ".cpp"):
                if os.path.exists(os.path.join(root, stem + ending)):
                    found[stem + ending] = os.path.join(folder, name)
    return found


def arrows(found):
    """Returns source -> set of the sources whose symbols it uses."""
    defined, used = {}, {}
    of_object = symbols(found.values())
    for source, path in found.items():
        names, used[source] = of_object[path]
        for name in names:
            defined.setdefault((source.split("/")[0], name), source)
    anywhere = {}
    for (_, name), source in sorted(defined.items()):
        anywhere.setdefault(name, source)
    graph = {source: set() for source in found}
    for source, names in used.items():
        for name in names:
            target = defined.get((source.split("/")[0], name)) or anywhere.get(name)
            if target and target != source:
                graph[source].add(target)
    return graph


def circles(graph):
    """Returns the strongly connected components of more than one node (Tarjan 1972)."""
    index, low, stack, on_stack, result = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for target in graph.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in on_stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = []
            while not component or component[-1] != node:
                component.append(stack.pop())
                on_stack.remove(component[-1])
            if len(component) > 1:
                result.append(sorted(component))

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return result


def folders_of(graph):
    """Returns the same arrows between folders."""
    folders = collections.defaultdict(set)
    for source, targets in graph.items():
        for target in targets:
            if os.path.dirname(source) != os.path.dirname(target):
                folders[os.path.dirname(source)].add(os.path.dirname(target))
    return folders


def includes(root):
    """Returns source or header -> set of the headers of the tree that it includes by their path from the root."""
    graph = {}
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [d for d in subfolders if not d.startswith((".", "build")) and d not in LEFT_OUT]
        for name in files:
            if name.endswith((".c", ".h", ".cpp")):
                path = os.path.join(folder, name)
                with open(path, errors="replace") as file:
                    named = re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', file.read(), re.M)
                found = [n for n in named if os.path.dirname(n) and os.path.exists(os.path.join(root, n))]
                graph[os.path.relpath(path, root)] = set(found)
    return graph


def large_folders(root):
    """Returns the folders with more than MOST_FILES files of C, C++, CUDA, Python or shell, with their numbers of files."""
    count = collections.Counter()
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [d for d in subfolders if not d.startswith((".", "build"))]
        count[os.path.relpath(folder, root)] = sum(f.endswith((".c", ".h", ".cpp", ".cu", ".py", ".sh")) for f in files)
    return [(folder, files) for folder, files in sorted(count.items()) if files > MOST_FILES]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    build = sys.argv[1]
    root = sys.argv[2] if len(sys.argv) == 3 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    found = objects(build, root)
    if not found:
        print(f"circles: no objects in {build}/obj: build first", file=sys.stderr)
        return 2
    graph = arrows(found)
    of_files, of_folders = circles(graph), circles(folders_of(graph))
    of_includes, large = circles(folders_of(includes(root))), large_folders(root)
    for circle in of_files:
        print("circle of files:", " ".join(circle))
        members = set(circle)
        for source in circle:
            print(f"    {source} uses", " ".join(sorted(graph[source] & members)))
    for circle in of_folders:
        print("circle of folders:", " ".join(circle))
    for circle in of_includes:
        print("circle of folders, by includes:", " ".join(circle))
    for folder, files in large:
        print(f"{folder}: {files} source files, more than {MOST_FILES}")
    print(f"circles: {len(found)} objects, {len(of_files)} circles of files, {len(of_folders)} of folders, {len(of_includes)} of includes")
    return 1 if of_files or of_folders or of_includes or large else 0


if __name__ == "__main__":
    sys.exit(main())
