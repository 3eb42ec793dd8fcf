# SPDX-License-Identifier: Apache-2.0
"""Files of a JAX program: JAX has no function that writes a checkpoint, so that programs use those of NumPy and Python, with which they
write metrics and predictions as well. A checkpoint has arrays of the state: what the update is given and returns."""

import functools
import os
import pickle
import sys

from .library import ROLE_CHECKPOINT, ROLE_HOST, lib, name_of
from .phases import Saved, patch_fsync
from .steps import steps

LOOKS = 4096  # at parts of what is saved: long lists of numbers are no state
SHARE = 0.5  # arrays of other shapes count as the state if they have at least this share of its bytes


class Enough(Exception):
    pass


def arrays_in(tree):
    """Arrays of JAX and NumPy among the first LOOKS parts."""
    arrays, looks = [], [LOOKS]

    def look(part):
        looks[0] -= 1
        if looks[0] < 0:
            raise Enough
        if hasattr(part, "shape") and hasattr(part, "dtype"):
            arrays.append(part)
        return False

    try:
        sys.modules["jax"].tree_util.tree_leaves(tree, is_leaf=look)
    except Exception:  # Enough, or what is no tree for JAX
        pass
    return arrays


def bytes_of(arrays):
    return sum(getattr(array, "nbytes", 0) for array in arrays)


class State:
    """What is known of the state. Until the update is known, and where a program marks its steps, only the size of the largest
    argument is known."""

    def __init__(self):
        self.shapes = set()  # of its arrays with one dimension or more
        self.bytes = 0  # of the largest argument of the update that is a part of it
        self.largest = 0  # bytes of the largest argument of a jitted function

    def called(self, arguments, keywords):
        """A jitted function is called for the first time."""
        self.largest = max([self.largest] + [bytes_of(arrays_in(a)) for a in (*arguments, *keywords.values())])

    def found(self, arguments, keywords, returned):
        """A function that may be the update has returned these arrays, and is given them now. A GAN has two of that kind."""
        known = {id(array) for array in returned}
        parts = [arrays_in(argument) for argument in (*arguments, *keywords.values())]
        parts = [arrays for arrays in parts if any(id(array) in known for array in arrays)]
        self.shapes |= {tuple(array.shape) for arrays in parts for array in arrays if array.shape}
        self.bytes = max([self.bytes] + [bytes_of(arrays) for arrays in parts])

    def has(self, arrays):
        """Are these arrays of the state, or copies of them? One dimension of an array of NumPy is that of a list of losses as well."""
        kind = getattr(sys.modules["jax"], "Array", ())  # JAX before 0.4 has none
        if not self.shapes:
            own = any(isinstance(array, kind) and len(array.shape) > 1 for array in arrays)
        else:
            own = any(tuple(array.shape) in self.shapes and (len(array.shape) > 1 or isinstance(array, kind)) for array in arrays)
        least = SHARE * (self.bytes or self.largest)
        return own or 0 < least <= bytes_of(arrays)


state = State()


def is_checkpoint(saved):
    try:
        return state.has(arrays_in(saved))
    except Exception:  # another version of JAX
        return False


def save_around(owner, attribute, text, saved_by, begun):
    """Replaces owner.attribute by itself in a range: a checkpoint, or host time. saved_by(arguments, keywords): what is saved; None: not
    to be recorded."""
    inner, handle = getattr(owner, attribute), name_of(text)

    @functools.wraps(inner)
    def outer(*arguments, **keywords):
        saved = saved_by(arguments, keywords)
        if saved is None:
            return inner(*arguments, **keywords)
        state_of_update = is_checkpoint(saved)
        if state_of_update:
            begun()
        lib.push_role(handle, ROLE_CHECKPOINT if state_of_update else ROLE_HOST)
        try:
            return inner(*arguments, **keywords)
        finally:
            lib.pop()
            if state_of_update:
                Saved.step = steps.index

    outer.__module__ = owner.__name__  # where pickle finds it
    setattr(owner, attribute, outer)


def patch_saving(is_inside, begun):
    """is_inside(): is this a part of what is recorded already? begun(): a checkpoint begins."""

    def of_numpy(arguments, keywords):
        return arguments[1:], keywords

    def of_pickle(arguments, keywords):
        tree = arguments[0] if arguments else keywords.get("obj")
        return tree if not is_inside() and arrays_in(tree) else None

    numpy = sys.modules.get("numpy")
    for function in ("save", "savez", "savez_compressed") if numpy is not None else ():
        save_around(numpy, function, "numpy.%s" % function, of_numpy, begun)
    save_around(pickle, "dump", "pickle.dump", of_pickle, begun)
    patch_fsync(os)
