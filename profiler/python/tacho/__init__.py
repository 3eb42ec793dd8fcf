# SPDX-License-Identifier: Apache-2.0
"""Marks what a training program does, for the profiler tacho.

    tacho.step()                 after each update: ends a step, and begins the next one
    with tacho.range("augment")  time of this name; also a decorator
    tacho.counter("loss", 0.7)   a value at this time

Under `tacho run` they are recorded; otherwise every call does nothing, so that a program keeps them. PyTorch is not needed.
"""

import contextlib
import sys

__all__ = ["counter", "range", "step"]


def _marks():
    """What records; None: this program does not run under tacho."""
    hook = sys.modules.get("tacho_hook")
    return hook.recorder() if hook is not None and hasattr(hook, "recorder") else None


def step():
    """An update is complete. From the first call on, these calls are the steps, in place of the updates of an optimizer."""
    marks = _marks()
    if marks is not None:
        marks.step()


def counter(name, value):
    """The value of a quantity, by its name, from now on."""
    marks = _marks()
    if marks is not None:
        marks.counter(name, value)


class range(contextlib.ContextDecorator):
    """The time inside of the block, or of each call of the function that it decorates."""

    def __init__(self, name):
        self._name, self._open = str(name), []  # what was entered and recorded: a function may call itself

    def __enter__(self):
        marks = _marks()
        if marks is not None:
            marks.push(self._name)
        self._open.append(marks)
        return self

    def __exit__(self, *exception):
        marks = self._open.pop()
        if marks is not None:
            marks.pop()
        return False
