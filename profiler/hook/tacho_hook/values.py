# SPDX-License-Identifier: Apache-2.0
"""Values of tensors that Python asks a device for: the host waits until the device has computed them, and launches nothing meanwhile.

The methods of torch.Tensor are replaced when the first step finds an accelerator in use: a program of the CPU keeps PyTorch's own.
A range is named after what was called and the innermost line outside of PyTorch ("item train.py:31"). A tensor on the CPU, or of
another class than PyTorch's two, is passed on: its value needs no wait that is known here. While something is compiled, and while
Dynamo is imported, PyTorch has its own methods (phases.py, BEFORE).
"""

import functools
import sys
import threading

from .library import lib, line_of_program, name_of
from .modules import modules
from .steps import steps

# method -> what the range is called
METHODS = {
    "item": "item",
    "tolist": "tolist",
    "cpu": "cpu",
    "numpy": "numpy",
    "nonzero": "nonzero",
    "to": "to cpu",
    "__float__": "float",
    "__int__": "int",
    "__bool__": "bool",
    "__index__": "index",
    "__repr__": "print",
    "__format__": "print",
}
LIBRARIES = ("torch", "numpy", "tacho_hook")

local = threading.local()  # inside: a part of a recorded call


def copies_to_host(arguments, keywords):
    """Does Tensor.to with these arguments end on the CPU, and wait for it?"""
    target = keywords.get("device", arguments[0] if arguments else None)
    kind = getattr(getattr(target, "device", target), "type", target)  # a tensor, a device, or a text
    waits = not (keywords.get("non_blocking") or (len(arguments) > 2 and arguments[2]))
    return waits and isinstance(kind, str) and kind.split(":")[0] == "cpu"


def recorded(inner, text, kinds, matters):
    """The method in a range on the calls that wait for a device."""

    @functools.wraps(inner, assigned=("__name__", "__qualname__", "__doc__"))
    def outer(tensor, *arguments, **keywords):
        waits = type(tensor) in kinds and not getattr(local, "inside", False) and not modules.compiling() and not tensor.is_cpu
        if not waits or (matters is not None and not matters(arguments, keywords)):
            return inner(tensor, *arguments, **keywords)
        local.inside = True
        lib.push(name_of("%s %s" % (text, line_of_program(LIBRARIES))))
        try:
            return inner(tensor, *arguments, **keywords)
        finally:
            lib.pop()
            local.inside = False

    return outer


replaced = []  # (class, method, PyTorch's own or None where it is that of a base class, the recorded one)


def take_out(module=None):
    """PyTorch has its own methods: Dynamo would look into what it finds in their place, and break graphs there."""
    for kind, method, own, _ in replaced:
        if own is None:
            delattr(kind, method)
        else:
            setattr(kind, method, own)


def put_back(module=None):
    for kind, method, _, outer in replaced:
        setattr(kind, method, outer)
    leave_alone()


def leave_alone(done=set()):
    """Dynamo does not compile what these functions do when a compiled function of the program calls them between two graphs."""
    homes = (sys.modules.get(name) for name in ("torch._dynamo.eval_frame", "torch._C._dynamo.eval_frame"))
    skip = next((home.skip_code for home in homes if hasattr(home, "skip_code")), None)
    for function in [outer for *_, outer in replaced] + [line_of_program, name_of, copies_to_host] if skip is not None else ():
        if function.__code__ not in done:
            done.add(function.__code__)
            skip(function.__code__)


def patch_tensor(module):
    def install():
        kind = module.Tensor
        kinds = {kind, getattr(sys.modules["torch"].nn, "Parameter", kind)}
        for method, text in METHODS.items():
            inner = getattr(kind, method, None)
            if inner is not None:
                outer = recorded(inner, text, kinds, copies_to_host if method == "to" else None)
                replaced.append((kind, method, vars(kind).get(method), outer))
        put_back()

    steps.accelerated.append(install)
