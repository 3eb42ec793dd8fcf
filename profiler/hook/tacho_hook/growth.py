# SPDX-License-Identifier: Apache-2.0
"""What grows, in a process whose memory grows from step to step: a container of the program, or a graph that a variable keeps.

Between two steps, at every eighth one, the memory that the process made itself is read. Where it grew at each of the last RISES looks, and
by LEAST in all, containers are listed twice, one look apart: one that got longer with the steps keeps something of each. It is named
by the variable or attribute that holds it, and by the line that adds to it: "growing list kept of main (train.py:92): 1 a step, 0.23 MiB
each". A tensor that a variable keeps with the graph of all steps ("total += loss") is named in the same way. All objects of a
program are listed in tens of milliseconds, so that is done CENSUSES times at most; only what is long enough is remembered.
"""

import collections
import gc
import linecache
import os
import re
import sys

from .library import lib, name_of
from .steps import LOOKS, steps

RISES, LEAST = 4, 2 << 20  # looks, bytes
CENSUSES = 3
LONG = 16  # elements: a container that gets one in each step has more
GRAPH = 20000  # nodes of a graph that are counted
PARTS = 8  # of an element, whose bytes are added up
KINDS = (list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict)
LIBRARIES = ("torch", "jax", "jaxlib", "tacho_hook")  # whose frames are not looked into
OPTIMIZED = 1  # flag of the code of functions: their variables are in no dictionary
PAGE = os.sysconf("SC_PAGE_SIZE")

ADDS = r"\b%s\s*(\.(append|appendleft|extend|add|update|insert|setdefault)\(|\+=|\[[^\]]*\]\s*=[^=])"
SUMS = r"\b%s\s*(\+=|=[^=].*\b%s\b)"


def own_bytes():
    """What the process holds, without files that it maps."""
    with open("/proc/self/statm") as file:
        pages = file.read().split()
    held = (int(pages[1]) - int(pages[2])) * PAGE
    cuda = getattr(sys.modules.get("torch"), "cuda", None) if steps.accelerator else None
    if cuda is not None and cuda.is_initialized():
        held += cuda.memory_allocated()
    return held


def frames():
    """Of this thread, outside of libraries."""
    frame = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).split(".")[0] not in LIBRARIES:
            yield frame
        frame = frame.f_back


def variables(frame):
    """Names and values. Before Python 3.13 those of a function are a copy that lives as long as the frame, and so would what is in
    it: it is emptied again, unless the program has asked for it too (locals()). Under a debugger it is the debugger's."""
    if not frame.f_code.co_flags & OPTIMIZED:
        return list(frame.f_globals.items())
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return []
    held = frame.f_locals
    items = list(held.items())
    if type(held) is dict and sys.getrefcount(held) <= 3:  # the frame, `held`, and the argument here
        held.clear()
    return items


def line_of(pattern, file, first):
    """The number of the first line that matches from line `first` on; 0: none."""
    lines, found = linecache.getlines(file) if file else [], re.compile(pattern).search
    return next((i + 1 for i in range(max(first, 1) - 1, len(lines)) if found(lines[i])), 0)


def place(name, owner, pattern, file, first):
    """ "kept of main (train.py:92)" """
    line = line_of(pattern, file, first) or first
    return "%s of %s (%s:%d)" % (name, owner, os.path.basename(file or "?"), line)


def of_frame(held):
    """The variable of a running function, or of a module, that is this object."""
    for frame in frames():
        for name, value in variables(frame):
            if value is held:
                code, is_function = frame.f_code, frame.f_code.co_flags & OPTIMIZED
                owner = code.co_name if is_function else str(frame.f_globals.get("__name__"))
                return place(name, owner, ADDS % re.escape(name), code.co_filename, code.co_firstlineno if is_function else 1)
    return None


def of_owner(held):
    """The module, or the object, of which this is an attribute."""
    for holder in gc.get_referrers(held):
        attributes = holder if type(holder) is dict else getattr(holder, "__dict__", None)
        name = next((k for k, v in list(attributes.items()) if v is held and isinstance(k, str)), None) if type(attributes) is dict else None
        if name is None:
            continue
        if "__builtins__" in attributes:
            module = str(attributes.get("__name__"))
            if module.split(".")[0] not in LIBRARIES:
                return place(name, module, ADDS % re.escape(name), attributes.get("__file__"), 1)
            continue
        owners = [holder] if attributes is not holder else gc.get_referrers(attributes)
        for owner in owners:
            kind = type(owner)
            if getattr(owner, "__dict__", None) is attributes and kind.__module__.split(".")[0] not in LIBRARIES:
                file = getattr(sys.modules.get(kind.__module__), "__file__", None)
                return place(name, kind.__name__, ADDS % (r"\." + re.escape(name)), file, 1)
    return None


def newest(held):
    if isinstance(held, (list, collections.deque)):
        return held[-1]
    return next(reversed(list(held.values()))) if isinstance(held, dict) else next(iter(held))


def bytes_of(value, depth=2):
    """About what one element holds: its tensors, its arrays, else its own size."""
    if isinstance(getattr(value, "nbytes", None), int):
        return value.nbytes
    if depth and isinstance(value, (list, tuple, dict)):
        parts = list(value.values() if isinstance(value, dict) else value)[:PARTS]
        return sum(bytes_of(part, depth - 1) for part in parts)
    return sys.getsizeof(value, 0)


def nodes(functions):
    """Of the graph that tensors of these functions keep, GRAPH at most."""
    seen, left = set(functions), list(functions)
    while left and len(seen) < GRAPH:
        for following, _ in left.pop().next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                left.append(following)
    return len(seen)


class Growth:
    def __init__(self):
        self.reset()

    def reset(self):
        self.held, self.censuses, self.before = [], 0, None

    def look(self, index):
        """After each of the first LOOKS steps and each LOOKS-th of the others."""
        if index < LOOKS or self.censuses > CENSUSES:
            return
        try:
            self.look_at_memory(index)
        except Exception:  # objects of the program may be of any kind
            self.before, self.censuses = None, CENSUSES + 1

    def look_at_memory(self, index):
        if self.before is not None:
            before, self.before = self.before, None
            self.compare(index, *before)
            return
        if self.censuses == CENSUSES:
            return
        self.held = self.held[-RISES:] + [own_bytes()]
        rises = all(after > before for before, after in zip(self.held, self.held[1:]))
        if len(self.held) > RISES and rises and self.held[-1] - self.held[0] >= LEAST:
            self.censuses += 1
            self.held = []
            lib.push(name_of("hook.measure"))
            self.before = index, self.containers(), self.graphs()
            lib.pop()

    def containers(self):
        return {id(held): len(held) for held in gc.get_objects() if type(held) in KINDS and len(held) >= LONG}

    def graphs(self):
        """The variables that keep a graph, by place: how many nodes it has."""
        kind, found = getattr(sys.modules.get("torch"), "Tensor", None), {}
        for frame in frames() if kind is not None else ():
            for name, value in variables(frame):
                if isinstance(value, kind) and value.grad_fn is not None:
                    found[frame.f_code, name] = nodes([value.grad_fn])
        return found

    def compare(self, index, since, lengths, graphs):
        lib.push(name_of("hook.measure"))
        text = self.longer(index - since, lengths) or self.deeper(index - since, graphs)
        lib.pop()
        if text is not None:
            self.censuses = CENSUSES + 1
            lib.push(name_of("growing " + text[:180]))
            lib.pop()

    def longer(self, count, lengths):
        """The container whose new elements hold most, with its name."""
        found = []
        for held in gc.get_objects():
            grown = len(held) - lengths.get(id(held), len(held)) if type(held) in KINDS else 0
            if held is not lengths and 2 * grown >= count:
                each = bytes_of(newest(held))
                found.append((grown * each, grown / count, each, held))
        found.sort(key=lambda row: row[0], reverse=True)
        for _, grown, each, held in found[:PARTS]:
            where = of_frame(held) or of_owner(held)
            if where is not None:
                return "%s %s: %.2g a step, %.2g MiB each" % (type(held).__name__, where, grown, each / 2**20)
        return None

    def deeper(self, count, graphs):
        now = self.graphs()
        for frame in frames():
            for name, _ in variables(frame):
                key = frame.f_code, name
                grown = now.get(key, 0) - graphs.get(key, now.get(key, 0))
                if grown >= count:
                    code, escaped = frame.f_code, re.escape(name)
                    where = place(name, code.co_name, SUMS % (escaped, escaped), code.co_filename, code.co_firstlineno)
                    return "graph %s: %.3g nodes a step" % (where, grown / count)
        return None


growth = Growth()
