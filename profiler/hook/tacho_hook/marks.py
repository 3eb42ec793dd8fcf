# SPDX-License-Identifier: Apache-2.0
"""What a program marks itself, with the module `tacho`."""

from .library import lib, name_of
from .steps import steps

_counters = {}


def push(name):
    lib.push(name_of(name))


def pop():
    lib.pop()


def step():
    steps.marked()


def counter(name, value):
    handle = _counters.get(name)
    if handle is None:
        handle = _counters[name] = lib.counter(str(name).encode("utf-8", "replace"))
    lib.sample(handle, float(value))
