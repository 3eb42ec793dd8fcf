# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX: calls of jitted functions, compilation with the shapes that caused it, waits for results, and steps.

A jitted function is a C++ object that nothing can look into, so the program gets one of this file that calls it: it has the attributes
and the class of the original, binds to instances as a method does, and is a jax.stages.Wrapped. What JAX itself and code inside of a jitted function
calls is not recorded, only calls of the program.

step        from one call of the update to its next one. The update is the first jitted function that is given what it returned the
            last time (parameters, the state of an optimizer), where the program does not mark its steps itself (tacho.step).
jit NAME    the call; on the CPU work, elsewhere what the host does for the device.
compile     tracing, lowering and compilation: a phase. A function that is compiled again is named with the argument that made it so.
wait        block_until_ready, and values that Python asks for (float(loss), numpy.asarray), with the line that asks.
evaluation  a jitted function that is named as one (frameworks.py), and the waits that follow it until another one is called: a phase.
checkpoint  numpy.save, numpy.savez, and pickle.dump of arrays of the state (saving.py): a phase.
"""

import atexit
import copy
import functools
import os
import sys
import threading
import types
import weakref
from threading import get_ident, main_thread

from .frameworks import EVALUATES, TRAINS
from .library import ROLE_COMPILE, ROLE_EVALUATION, ROLE_HOST, device_profiler, lib, line_of_program, name_of
from .saving import patch_saving, state
from .steps import ELSEWHERE, steps

LEAVES = 64  # of the arguments and results that are compared to find the update
LIBRARIES = ("jax", "jaxlib", "numpy", "tacho_hook")  # whose lines are not named
CALLS = 16  # of a function in which that is tried
# methods of arrays that ask for values -> what the range is called, as in values.py
VALUES = {
    "__array__": "array",
    "__bool__": "bool",
    "__complex__": "complex",
    "__float__": "float",
    "__format__": "print",
    "__index__": "index",
    "__int__": "int",
    "__repr__": "print",
    "__str__": "print",
    "item": "item",
    "tobytes": "tobytes",
    "tolist": "tolist",
}


class Local(threading.local):
    """Of each thread: how deep it is inside of recorded calls and of compilation, and the call that goes on."""

    def __init__(self):
        self.inside = 0
        self.compiling = 0
        self.call = self.name = None  # name: of its compilation
        self.evaluating = False  # the last jitted function that was called evaluates


local = Local()


def on_device():
    """Does an accelerator compute? Asked only once JAX has started a back end."""
    if not steps.accelerator:
        bridge = sys.modules.get("jax._src.xla_bridge")
        if any(name not in ("cpu", "interpreter") for name in getattr(bridge, "_backends", None) or ()):
            steps.accelerates()
    return steps.accelerator


def push_work(handle):
    on_device()  # the library knows then
    lib.push_work(handle, 0)


def shape_of(leaf):
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None:
        return repr(leaf)[:40] if isinstance(leaf, (bool, int, type(None))) else type(leaf).__name__  # no texts: they may be secret
    return "%s[%s]" % (dtype, ",".join(map(str, shape)))


def shapes_of(arguments, keywords):
    """The arguments' leaves by their place: [("args[0]['w']", "float32[64,64]"), ...]."""
    tree = sys.modules["jax"].tree_util
    leaves, _ = tree.tree_flatten_with_path((arguments, keywords))
    texts = []
    for path, leaf in leaves:
        place = "".join(map(str, path))
        texts.append((("args" if place.startswith("[0]") else "keywords") + place[3:], shape_of(leaf)))
    return texts


class Profile:
    """JAX's own profile (XPlane) of the steps between two looks, where TACHO_JAX_PROFILE names a folder: operators inside of jitted
    functions, and work of devices that tacho does not record. Each process writes into a folder of its own below it."""

    FIRST = 8  # the step after which it begins: until then functions are compiled

    def __init__(self):
        self.folder = os.environ.get("TACHO_JAX_PROFILE")
        self.open, self.mark = False, None

    def begin(self):
        if self.folder:
            steps.looks.append(self.look)
            atexit.register(self.end)

    def look(self, index):
        if index > self.FIRST:
            self.end()
        elif index == self.FIRST and not self.open:
            sys.modules["jax"].profiler.start_trace(os.path.join(self.folder, str(os.getpid())))
            self.open = True

    def end(self):
        if self.open:
            self.open = False
            self.step_ended()
            sys.modules["jax"].profiler.stop_trace()

    def step_ended(self):
        """Marks each step as JAX's profiler wants it, from one update to the next one."""
        if self.mark is not None:
            self.mark.__exit__(None, None, None)
            self.mark = None
        if self.open:
            self.mark = sys.modules["jax"].profiler.StepTraceAnnotation("train", step_num=steps.index)
            self.mark.__enter__()


profile = Profile()


def of_inner(name):
    return property(lambda self: getattr(self._tacho_inner, name))


class Jitted:
    """A jitted function of the program. What a program asks it for is that of JAX's own object: attributes, class, text, what is
    pickled. Neither pickles nor copies of its attributes know this class."""

    __slots__ = ("_tacho_inner", "_tacho_calls", "__weakref__")

    def __init__(self, inner):
        name = getattr(inner, "__name__", None) or "function"
        object.__setattr__(self, "_tacho_inner", inner)
        object.__setattr__(self, "_tacho_calls", Calls(str(name)[:80]))

    def __call__(self, *arguments, **keywords):
        return self._tacho_calls.call(self, self._tacho_inner, arguments, keywords)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name):
        if name in Jitted.__slots__:  # of one that is not made yet
            raise AttributeError(name)
        return getattr(self._tacho_inner, name)

    def __setattr__(self, name, value):
        setattr(self._tacho_inner, name, value)

    def __delattr__(self, name):
        delattr(self._tacho_inner, name)

    def __dir__(self):
        return dir(self._tacho_inner)

    def __copy__(self):
        return Jitted(copy.copy(self._tacho_inner))

    def __deepcopy__(self, memo):
        return Jitted(copy.deepcopy(self._tacho_inner, memo))

    def __reduce__(self):
        return self._tacho_inner.__reduce__()

    def __reduce_ex__(self, protocol):
        return self._tacho_inner.__reduce_ex__(protocol)

    def __repr__(self):
        return repr(self._tacho_inner)

    # the protocol jax.stages.Wrapped looks for these in the class
    def lower(self, *arguments, **keywords):
        return self._tacho_inner.lower(*arguments, **keywords)

    def trace(self, *arguments, **keywords):
        return self._tacho_inner.trace(*arguments, **keywords)

    def eval_shape(self, *arguments, **keywords):
        return self._tacho_inner.eval_shape(*arguments, **keywords)

    def clear_cache(self):
        return self._tacho_inner.clear_cache()

    # what every object has, and __getattr__ is not asked for
    __class__, __dict__, __doc__ = of_inner("__class__"), of_inner("__dict__"), of_inner("__doc__")
    __module__, __getstate__ = of_inner("__module__"), of_inner("__getstate__")


def evaluates(name):
    words = name.lower().split("_")
    return any(word in EVALUATES for word in words) and not any(word in TRAINS for word in words)


def is_random_key(leaf):
    """A function that makes a batch is given the key that it returned: it updates nothing."""
    dtype = str(leaf.dtype)
    return dtype.startswith("key<") or (dtype == "uint32" and leaf.shape == (2,))


def on_main_thread():
    return get_ident() == main_thread().ident


def is_anchor(owner):
    """Are its calls the steps?"""
    return steps.anchor is not None and steps.anchor() is owner


class Calls:
    """What is known of the calls of one jitted function. update: that of which the calls are the steps, None: not known; anchor: the
    reference to it that steps.anchor holds."""

    update = anchor = rank_of_update = None

    def __init__(self, name):
        self.name, self.handle = name, name_of("jit %s" % name)
        self.evaluates = evaluates(name)
        self.trains = any(word in TRAINS for word in name.lower().split("_"))
        self.count, self.shapes = 0, None
        self.returned = ()  # references to leaves of the last result
        self.given, self.passes_on = 0, False  # calls that were given what the last one returned; that is what it is for

    def call(self, owner, inner, arguments, keywords):
        if local.inside or local.compiling:
            return inner(*arguments, **keywords)
        try:
            is_update = self.is_update(arguments, keywords)
            steps.begin()
        except Exception:  # another version of JAX
            is_update = False
        local.inside, local.call, local.name = 1, (self, arguments, keywords), None
        # the update is known by what it is given, whatever it is called
        local.evaluating = self.evaluates and steps.anchor is not None and not is_anchor(owner)
        if local.evaluating:
            lib.push_role(self.handle, ROLE_EVALUATION)
        else:
            push_work(self.handle)
        try:
            result = inner(*arguments, **keywords)
        finally:
            lib.pop()
            local.inside, local.call = 0, None
        self.count += 1
        self.given += is_update
        if is_update and (on_main_thread() or self.given >= ELSEWHERE):  # another thread may make batches for an update to come
            self.passes_on = True
            if self.takes_over():
                self.becomes_update(owner)
        if is_anchor(owner) or (self.passes_on and self.trains):
            self.updated(owner)
        elif self.may_be_update():
            self.keep(result)
        return result

    def takes_over(self):
        """Is it rather the update than the one that is known? One whose function has returned is gone."""
        if steps.anchor is None or steps.anchor() is None:
            return True
        return Calls.update is not None and steps.anchor is Calls.anchor and self.rank() > Calls.rank_of_update

    def rank(self):
        """What moves the state of an environment or of a metric is given its result as well, and so is what makes batches on another
        thread: one that is named as an update goes before, and then one of the main thread."""
        return self.trains, on_main_thread()

    def becomes_update(self, owner):
        Calls.update, Calls.anchor, Calls.rank_of_update = self, weakref.ref(owner), self.rank()
        steps.anchor = Calls.anchor
        steps.guessed = steps.guessed or steps.thread != get_ident()  # nothing on that thread will end its step

    def updated(self, owner):
        """The update has returned, or another one, which the program may have come to for good."""
        steps.updated(owner)
        if not is_anchor(owner):
            return
        if Calls.update is not self:
            Calls.update, Calls.anchor, Calls.rank_of_update = self, steps.anchor, self.rank()
        if profile.open:
            profile.step_ended()

    def may_be_update(self):
        """The first function that is given what it returned is the update, until another one takes its place."""
        return self.count < CALLS and not self.passes_on and (self.trains or self.takes_over())

    def keep(self, result):
        """Remembers what was returned, without keeping it alive."""
        try:
            leaves = sys.modules["jax"].tree_util.tree_leaves(result)[:LEAVES]
            self.returned = [weakref.ref(leaf) for leaf in leaves if hasattr(leaf, "shape") and not is_random_key(leaf)]
        except Exception:
            self.returned = ()

    def is_update(self, arguments, keywords):
        """Is an array that the last call returned among the arguments of this one?"""
        if not self.count:
            state.called(arguments, keywords)
        if not self.returned or not self.may_be_update():
            return False
        returned = [leaf for leaf in (reference() for reference in self.returned) if leaf is not None]
        last = {id(leaf) for leaf in returned}
        leaves = sys.modules["jax"].tree_util.tree_leaves((arguments, keywords))
        found = any(id(leaf) in last for leaf in leaves[: 4 * LEAVES])
        if found:
            state.found(arguments, keywords, returned)
        return found

    def compiled_name(self, arguments, keywords):
        """ "compile NAME", or "recompile NAME: args[1] float32[48,64], was float32[64,64]"."""
        shapes, before = shapes_of(arguments, keywords), self.shapes
        self.shapes = shapes
        if before is None:
            return "compile %s" % self.name
        for (place, shape), (_, was) in zip(shapes, before):
            if shape != was:
                return "recompile %s: %s %s, was %s" % (self.name, place, shape, was)
        if len(shapes) != len(before):
            return "recompile %s: %d arrays, were %d" % (self.name, len(shapes), len(before))
        return "recompile %s: the same shapes" % self.name


def compiled_name(fun_name):
    """Tracing, lowering and compiling follow each other: in one call of the program they have one name."""
    if local.call is None:
        name = str(fun_name)
        return "compile %s" % (name[4:-1] if name.startswith("jit(") else name)[:80]
    if local.name is None:
        calls, arguments, keywords = local.call
        try:
            local.name = calls.compiled_name(arguments, keywords)[:200]
        except Exception:  # another version of JAX
            local.name = "compile %s" % calls.name
    return local.name


def patch_jax(module):
    def replace(attribute):
        inner = getattr(module, attribute, None)
        if inner is None:
            return

        @functools.wraps(inner)
        def outer(*arguments, **keywords):
            made = inner(*arguments, **keywords)
            if local.inside or local.compiling:
                return made
            if arguments or "fun" in keywords or "f" in keywords:
                return Jitted(made) if hasattr(made, "lower") else made
            return lambda function: Jitted(made(function))  # jax.jit(static_argnums=...) as a decorator

        outer.__module__ = module.__name__  # where pickle finds it
        setattr(module, attribute, outer)

    patch_eval_shape(module)
    profile.begin()
    patch_saving(lambda: local.inside, ends_evaluation)
    replace("jit")
    replace("pmap")
    for attribute in ("block_until_ready", "device_put", "device_get"):
        if hasattr(module, attribute):
            wait_around(module, attribute, attribute, attribute == "device_put")


def ends_evaluation():
    local.evaluating = False


def patch_eval_shape(module):
    """It knows a jitted function, and its static arguments, by its type alone."""
    inner = getattr(module, "eval_shape", None)
    if inner is None:
        return

    @functools.wraps(inner)
    def eval_shape(fun, *arguments, **keywords):
        return inner(fun._tacho_inner if type(fun) is Jitted else fun, *arguments, **keywords)

    eval_shape.__module__ = module.__name__
    module.eval_shape = eval_shape


def wait_around(owner, attribute, text, is_copy=False):
    """Replaces owner.attribute by itself in a range: what it waits for is the device's work, which on the CPU is that of its threads."""
    inner = getattr(owner, attribute)

    @functools.wraps(inner, assigned=("__name__", "__doc__"))
    def outer(*arguments, **keywords):
        if local.inside or local.compiling:
            return inner(*arguments, **keywords)
        local.inside = 1
        handle = name_of("%s %s" % (text, line_of_program(LIBRARIES)))
        if local.evaluating and not is_copy:
            lib.push_role(handle, ROLE_EVALUATION)
        elif is_copy:
            lib.push_role(handle, ROLE_HOST)
        else:
            push_work(handle)
        try:
            return inner(*arguments, **keywords)
        finally:
            lib.pop()
            local.inside = 0

    if isinstance(owner, types.ModuleType):
        outer.__module__, outer.__qualname__ = owner.__name__, attribute  # where pickle finds it
    setattr(owner, attribute, outer)


def patch_array(module):
    """Values that Python asks for: float(loss), loss.item(), f"{loss:.3f}"."""
    kind = module.ArrayImpl
    wait_around(kind, "block_until_ready", "block_until_ready")
    for attribute, text in VALUES.items():
        if hasattr(kind, attribute):
            wait_around(kind, attribute, text)


def patch_dispatch(module):
    """JAX measures tracing, lowering and compilation with this class. The outermost one of a thread is a range."""
    kind = module.LogElapsedTimeContextManager
    enter, leave = kind.__enter__, kind.__exit__

    def __enter__(self):
        local.compiling += 1
        if local.compiling == 1:
            lib.push_role(name_of(compiled_name(getattr(self, "fun_name", None) or "a function")), ROLE_COMPILE)
        return enter(self)

    def __exit__(self, *exception):
        try:
            return leave(self, *exception)
        finally:
            if local.compiling == 1:
                lib.pop()
            local.compiling -= 1

    kind.__enter__, kind.__exit__ = __enter__, __exit__


def patch_jax_profiler(module):
    """JAX's own profiler takes the recording of device work away from tacho between these two: the agent is told."""
    announce, begin, end = device_profiler(), module.start_trace, module.stop_trace

    @functools.wraps(begin)
    def start_trace(*arguments, **keywords):
        announce(1)
        try:
            return begin(*arguments, **keywords)
        except BaseException:
            announce(0)
            raise

    @functools.wraps(end)
    def stop_trace(*arguments, **keywords):
        try:
            return end(*arguments, **keywords)
        finally:
            announce(0)

    module.start_trace, module.stop_trace = start_trace, stop_trace
