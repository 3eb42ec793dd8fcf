# SPDX-License-Identifier: Apache-2.0
"""Does what the table of frameworks says (frameworks.py): names the framework of a program, its phases, steps and ranges."""

import functools
import sys
import types

from .frameworks import FRAMEWORKS, PACKAGES, SCRIPTS
from .library import ROLE_HOST, ROLE_INPUT_WAIT, around, lib, name_of
from .steps import steps

named = set()


def use(name, package):
    """The program uses this framework: a range without length says so, once."""
    if name in named:
        return
    named.add(name)
    version = getattr(sys.modules.get(package), "__version__", "") if package else ""
    lib.push(name_of(("framework %s %s" % (name, version)).strip()))
    lib.pop()


def call_first(owner, attribute, _, first):
    inner = getattr(owner, attribute)

    @functools.wraps(inner)
    def outer(*arguments, **keywords):
        first()
        return inner(*arguments, **keywords)

    setattr(owner, attribute, outer)


def in_range(owner, attribute, role, first):
    kind = getattr(owner, "__name__", "") + "." if isinstance(owner, type) else ""
    around(owner, attribute, kind + attribute, role, first)


def in_named_range(owner, attribute, place, first):
    """A range of the host that is named after an argument: "callbacks on_step_end"."""
    inner = getattr(owner, attribute)

    @functools.wraps(inner)
    def outer(*arguments, **keywords):
        first()
        lib.push_role(name_of("callbacks %s" % (arguments[place] if len(arguments) > place else "")), ROLE_HOST)
        try:
            return inner(*arguments, **keywords)
        finally:
            lib.pop()

    setattr(owner, attribute, outer)


def as_step(owner, attribute, counter, first):
    """The calls after which the object's counter of updates has grown end a step."""
    inner = getattr(owner, attribute)

    @functools.wraps(inner)
    def outer(self, *arguments, **keywords):
        first()
        before = getattr(self, counter, None)
        result = inner(self, *arguments, **keywords)
        if getattr(self, counter, None) != before:
            steps.marked()
        return result

    setattr(owner, attribute, outer)


def as_wait(owner, attribute, _, first):
    """A batch of another loader; the first one begins the first step."""
    around(owner, attribute, "%s.%s" % (owner.__name__, attribute), ROLE_INPUT_WAIT, steps.begin)


def in_text_range(owner, attribute, text, first):
    around(owner, attribute, text, ROLE_HOST)


RULES = {
    "used": call_first,
    "range": in_range,
    "named": in_named_range,
    "step": as_step,
    "wait": as_wait,
    "text": in_text_range,
}


def apply(module, calls, first):
    """What another version of the framework does not have stays unseen."""
    for path, (rule, parameter) in calls.items():
        *owners, attribute = path.split(".")
        owner = functools.reduce(lambda o, part: getattr(o, part, None), owners, module)
        if owner is not None and callable(getattr(owner, attribute, None)):
            RULES[rule](owner, attribute, parameter, first)


def patch_framework(module):
    name, package, calls = FRAMEWORKS[module.__name__]
    apply(module, calls, lambda: use(name, package))


def patch_package(module):
    apply(module, PACKAGES[module.__name__], lambda: None)


def patch_scripts(module):
    """Once the first step is over the program has defined its functions."""

    def look(index):
        main = sys.modules.get("__main__")
        for name, functions, calls in SCRIPTS if index == 0 and main is not None else ():
            if all(isinstance(vars(main).get(function), types.FunctionType) for function in functions):
                apply(main, calls, lambda: None)
                use(name, None)

    steps.looks.append(look)
