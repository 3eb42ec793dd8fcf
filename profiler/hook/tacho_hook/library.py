# SPDX-License-Identifier: Apache-2.0
"""The functions of libtacho_hook.so: ranges, counters and names of the NVTX domain `torch` or `jax`."""

import ctypes
import functools
import os
import re
import sys

ROLE_MICRO_STEP, ROLE_INPUT_WAIT, ROLE_READ, ROLE_COLLATE, ROLE_CHECKPOINT = 1, 2, 3, 5, 7
ROLE_EVALUATION, ROLE_COMPILE, ROLE_HOST, ROLE_COMM_WAIT = 8, 9, 10, 11
PASS_FORWARD, PASS_BACKWARD, PASS_RECOMPUTE, PASS_OPTIMIZER = 1, 2, 3, 4


class Library:
    """Has a function of libtacho_hook.so in each attribute, once the first patched module is imported."""

    is_open = False


lib = Library()
_names = {}


def open_library(folder, domain):
    """Loads the library. PyDLL: a call keeps the interpreter's lock, which is cheaper than giving it away for 30 ns."""
    library = ctypes.PyDLL(os.path.join(folder, "libtacho_hook.so"))
    handle, unsigned, u64 = ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint64
    for function, result, arguments in (
        ("open", ctypes.c_int, [ctypes.c_char_p]),
        ("name", handle, [ctypes.c_char_p]),
        ("push", None, [handle]),
        ("push_role", None, [handle, unsigned]),
        ("on_device", None, [ctypes.c_int]),
        ("push_work", None, [handle, unsigned]),
        ("cost", handle, [u64, u64, u64, unsigned, unsigned]),
        ("push_cost", None, [handle, handle]),
        ("push_step", ctypes.c_int, [u64]),
        ("pop_step", None, []),
        ("push_comm", None, [handle, unsigned, u64, u64, u64, unsigned]),
        ("pop", None, []),
        ("counter", u64, [ctypes.c_char_p]),
        ("sample", None, [u64, ctypes.c_double]),
    ):
        f = getattr(library, "tacho_hook_" + function)
        f.restype, f.argtypes = result, arguments
        setattr(lib, function, f)
    lib.open(domain.encode())
    lib.is_open = True
    library.tacho_hook_function.restype = ctypes.py_object
    for i in range(library.tacho_hook_functions()):  # without ctypes, as often as a step calls them
        f = library.tacho_hook_function(i)
        setattr(lib, f.__name__, f)


def device_profiler():
    """The agent's function that is told when another profiler takes the recording of device work (1), and when it has ended (0)."""
    announce = ctypes.PyDLL(os.environ.get("NVTX_INJECTION64_PATH", "")).tacho_device_profiler
    announce.restype, announce.argtypes = None, [ctypes.c_int]
    return announce


def name_of(text):
    handle = _names.get(text)
    if handle is None:
        handle = _names[text] = lib.name(text.encode("utf-8", "replace"))
    return handle


NAMES = 4096  # of a program: any more count as one where they differ in their numbers. A name lives as long as the process
_of_program = {}


def name_of_program(text):
    """The name of a range that the program marks, which may have the number of a step in it."""
    handle = _of_program.get(text)
    if handle is None:
        if len(_of_program) >= NAMES:
            return name_of(re.sub(r"\d+", "#", text))
        handle = _of_program[text] = name_of(text)
    return handle


_counters = {}


def sample(name, value):
    """A value of the counter of that name."""
    handle = _counters.get(name)
    if handle is None:
        handle = _counters[name] = lib.counter(str(name).encode("utf-8", "replace"))
    lib.sample(handle, float(value))


def line_of_program(libraries):
    """ "train.py:31": the innermost line outside of packages of these names."""
    frame = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).split(".")[0] not in libraries:
            return "%s:%d" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno)
        frame = frame.f_back
    return "?"


def around(owner, attribute, text, role, enter=None, leave=None):
    """Replaces owner.attribute by itself in a range of tacho.range."""
    inner, handle, push_role, pop = getattr(owner, attribute), name_of(text), lib.push_role, lib.pop

    @functools.wraps(inner)
    def outer(*arguments, **keywords):
        if enter is not None:
            enter()
        push_role(handle, role)
        try:
            return inner(*arguments, **keywords)
        finally:
            pop()
            if leave is not None:
                leave(arguments)

    setattr(owner, attribute, outer)
