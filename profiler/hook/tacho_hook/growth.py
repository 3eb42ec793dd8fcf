# SPDX-License-Identifier: Apache-2.0
"""What grows, in a process whose memory grows from step to step: a container of the program, or a graph that a variable keeps.

Between two steps, at every eighth one, the memory that the process made itself is read. Where it grew at each of the last RISES looks, and
by LEAST in all, containers are listed twice, one look apart: one that got longer with the steps keeps something of each. It is named
by what holds it (a variable, an attribute, a closure, a generator, a container that has one of these, a cache), and by the line that adds
to it: "growing list kept of main (train.py:92): 1 a step, 0.23 MiB each". A tensor that a variable keeps with the graph of all steps
("total += loss"), and an array that is joined with more in each step, are named in the same way. All objects of a
program are listed in tens of milliseconds, so that is done CENSUSES times at most; only what is long enough is remembered.
"""

import collections
import gc
import linecache
import os
import re
import sys
import types

from .library import lib, name_of, sample
from .steps import LOOKS, accelerator, steps

RISES, LEAST = 4, 2 << 20  # looks, bytes
CENSUSES = 3
LONG = 16  # elements: a container that gets one in each step has more
GRAPH = 20000  # nodes of a graph that are counted
PARTS = 8  # of an element, whose bytes are added up
PLAIN = (int, float, str, bytes, type(None))  # elements that hold nothing else: a list of numbers for a plot is no leak of megabytes
PLAIN_PART = 0.05  # of what memory grows by, from there on they are named
FOUND, HOLDERS = 4, 3  # containers that are searched for, and those around each
JOINED = (0.25, 2)  # of what memory grows by: the least and most by which an array that is joined with more gets larger
KINDS = (list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict)
LIBRARIES = ("torch", "jax", "jaxlib", "tacho_hook")  # whose frames are not looked into
OPTIMIZED = 1  # flag of the code of functions: their variables are in no dictionary
PAGE = os.sysconf("SC_PAGE_SIZE")

# NAME.append(, NAME["loss"].append(, NAME += and NAME[index] = in a line
ADDS = r"\b%s\s*(\[[^\]]*\]\s*)*(\.(append|appendleft|extend|add|update|insert|setdefault)\(|\+=|(?<=\])\s*=[^=])"
JOINS = r"\b%s\s*=.*\b(cat|concat|concatenate|append|[vhd]?stack)\("
SUMS = r"\b%s\s*(\+=|=[^=].*\b%s\b)"


def is_library(module):
    return str(module).split(".")[0] in LIBRARIES


def own_bytes():
    """What the process holds, without files that it maps."""
    with open("/proc/self/statm") as file:
        pages = file.read().split()
    held = (int(pages[1]) - int(pages[2])) * PAGE
    return held + (on_device[0] if steps.accelerator else 0)


on_device = [0]  # bytes at the last look


def count_device_memory(index):
    """After each of the first LOOKS steps and each LOOKS-th of the others: to ask takes PyTorch tens of microseconds. Between two steps
    there are no activations, so this is no total of the process, whose counters begin with "memory."."""
    held = accelerator.allocated() if steps.accelerator else None
    if held is not None:
        on_device[0] = held
        sample("device.allocated", held)


def frames():
    """Of this thread, outside of libraries."""
    frame = sys._getframe(1)
    while frame is not None:
        if not is_library(frame.f_globals.get("__name__")):
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


def adds(name, path):
    """Patterns of the line that adds to a variable: to its part that the path names, else to any."""
    part = re.escape(path).replace('"', "[\"']")
    return [ADDS % (name + r"\s*" + part), ADDS % name]


def place(name, owner, patterns, file, first):
    """ "kept of main (train.py:92)" """
    line = next(filter(None, (line_of(pattern, file, first) for pattern in patterns)), first)
    return "%s of %s (%s:%d)" % (name, owner, os.path.basename(file or "?"), line)


def of_frame(frame, held, path):
    """The variable of a running function, of a generator, or of a module, that is this object."""
    code, is_function = frame.f_code, frame.f_code.co_flags & OPTIMIZED
    for name, value in variables(frame):
        if value is held:
            owner = code.co_name if is_function else str(frame.f_globals.get("__name__"))
            return place(name + path, owner, adds(re.escape(name), path), code.co_filename, code.co_firstlineno if is_function else 1)
    return None


def of_attribute(holder, held, path):
    """The module, the object or the class of which this is an attribute."""
    attributes = holder if type(holder) is dict else getattr(holder, "__dict__", None)
    name = next((k for k, v in list(attributes.items()) if v is held and isinstance(k, str)), None) if type(attributes) is dict else None
    if name is None:
        return None
    if "__builtins__" in attributes:
        module = str(attributes.get("__name__"))
        return None if is_library(module) else place(name + path, module, adds(re.escape(name), path), attributes.get("__file__"), 1)
    for owner in [holder] if attributes is not holder else gc.get_referrers(attributes):
        if isinstance(owner, type):
            kind, is_owner = owner, vars(owner).get(name) is held
        else:
            kind, is_owner = type(owner), getattr(owner, "__dict__", None) is attributes
        if is_owner and not is_library(kind.__module__):
            file = getattr(sys.modules.get(kind.__module__), "__file__", None)
            return place(name + path, kind.__name__, adds(r"\." + re.escape(name), path), file, 1)
    return None


def of_function(holder, held, path):
    """The function that keeps it: in a variable of the function around it, as the value of an argument that is not given, or as a cache."""
    if type(holder).__name__ == "_lru_cache_wrapper":
        code = getattr(getattr(holder, "__wrapped__", None), "__code__", None)
        return None if code is None else place("lru_cache", code.co_name, [], code.co_filename, code.co_firstlineno)
    kept = [holder] if type(holder) is tuple else []  # of default values
    if type(holder) is types.CellType:
        kept = [part for part in gc.get_referrers(holder) if type(part) is tuple]
    for part in kept:
        for function in gc.get_referrers(part):
            if type(function) is not types.FunctionType or is_library(function.__module__):
                continue
            code, names = function.__code__, ()
            if part is function.__closure__:
                names = code.co_freevars
            elif part is function.__defaults__:
                names = code.co_varnames[code.co_argcount - len(part) : code.co_argcount]
            name = next((name for name, value in zip(names, part) if value is holder or value is held), None)
            if name is not None:
                return place(name + path, code.co_name, adds(re.escape(name), path), code.co_filename, code.co_firstlineno)
    return None


def of_generator(holder, held, path):
    frame = getattr(holder, "gi_frame", None) if type(holder) is types.GeneratorType else None
    return None if frame is None or is_library(frame.f_globals.get("__name__")) else of_frame(frame, held, path)


def index_of(holder, held):
    """ '["loss"]': where it is in the container that has it."""
    items = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
    key = next((key for key, value in list(items) if value is held), None)
    return '["%s"]' % key[:40] if isinstance(key, str) else "[%d]" % key if isinstance(key, int) else "[...]"


def where_of(held, path="", levels=1, own=None):
    """ 'history["loss"] of main (train.py:92)': what holds this object, or the container that it is in; None: not known. own: a list
    of this function."""
    where = next((text for text in (of_frame(frame, held, path) for frame in frames()) if text is not None), None)
    if where is not None:
        return where
    holders = gc.get_referrers(held)
    for holder in holders:
        for kind in (of_attribute, of_function, of_generator):
            where = where or kind(holder, held, path)
    for holder in [h for h in holders if type(h) in KINDS and h is not own][:HOLDERS] if where is None and levels else ():
        where = where or where_of(holder, index_of(holder, held) + path, levels - 1, holders)
    return where


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
        self.rate = 0.0  # bytes a step by which memory grew when it was looked at last
        self.batches = 0  # that this process has made as a worker of a loader

    def made_batch(self):
        """In a worker of a loader, which runs no steps."""
        self.batches += 1
        if not self.batches % LOOKS:
            self.look(self.batches)

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
            self.rate = (self.held[-1] - self.held[0]) / (RISES * LOOKS)
            self.held = []
            lib.push(name_of("hook.measure"))
            self.before = index, self.containers(), self.graphs(), self.arrays()
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

    def arrays(self):
        """The variables, and attributes of objects in them, that are tensors or arrays: (code, name, attribute) -> bytes."""
        found = {}
        for frame in frames():
            for name, value in variables(frame):
                own = getattr(value, "__dict__", None) if not is_library(type(value).__module__) else None
                parts = list(own.items()) if type(own) is dict and not isinstance(value, types.ModuleType) else []
                for attribute, part in [("", value)] + parts:
                    if isinstance(getattr(part, "nbytes", None), int):
                        found[frame.f_code, name, attribute] = part.nbytes
        return found

    def compare(self, index, since, lengths, graphs, arrays):
        lib.push(name_of("hook.measure"))
        count = index - since
        text = self.longer(count, lengths) or self.deeper(count, graphs) or self.larger(count, arrays)
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
                if not isinstance(newest(held), PLAIN) or grown * each >= PLAIN_PART * self.rate * count:
                    found.append((grown * each, grown / count, each, held))
        found.sort(key=lambda row: row[0], reverse=True)
        for _, grown, each, held in found[:FOUND]:
            where = where_of(held)
            if where is not None:
                return "%s %s: %.2g a %s, %.2g MiB each" % (type(held).__name__, where, grown, "batch" if self.batches else "step", each / 2**20)
        return None

    def deeper(self, count, graphs):
        now = self.graphs()
        for frame in frames():
            for name, _ in variables(frame):
                key = frame.f_code, name
                grown = now.get(key, 0) - graphs.get(key, now.get(key, 0))
                if grown >= count:
                    code, escaped = frame.f_code, re.escape(name)
                    where = place(name, code.co_name, [SUMS % (escaped, escaped)], code.co_filename, code.co_firstlineno)
                    return "graph %s: %.3g nodes a step" % (where, grown / count)
        return None

    def larger(self, count, arrays):
        """An array that is joined with more in each step: "seen = torch.cat([seen, x])". It gets larger by about what memory grows by; a
        batch of rows of any length is larger than an earlier one by chance."""
        least, most = (part * self.rate * count for part in JOINED)
        grown = {key: held - arrays[key] for key, held in self.arrays().items() if key in arrays}
        key = max((key for key in grown if least <= grown[key] <= most), key=grown.get, default=None)
        if key is None:
            return None
        code, name, attribute = key
        name = "%s.%s" % (name, attribute) if attribute else name
        where = place(name, code.co_name, [JOINS % re.escape(name)], code.co_filename, code.co_firstlineno)
        return "array %s: %.2g MiB a step" % (where, grown[key] / count / 2**20)


growth = Growth()
