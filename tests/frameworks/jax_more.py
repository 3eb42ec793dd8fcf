# SPDX-License-Identifier: Apache-2.0
"""More programs of JAX: what else is done with jitted functions, files that are no checkpoints, threads, generators. Each says what it
did: the last line of stdout, as JSON.

usage: jax_more.py NAME [HOW]
"""

import collections
import copy
import functools
import inspect
import json
import pickle
import queue
import re
import sys
import tempfile
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np

truth = {}
rng = np.random.default_rng(0)
STEPS = 60


def scale(value, factor=2.0):
    """Of a value."""
    return value * factor


scaled = jax.jit(scale)


@jax.jit
def decorated(value):
    return value + 1


class Model:
    factor = 3.0

    @functools.partial(jax.jit, static_argnums=0)
    def times(self, value):
        return value * self.factor

    @staticmethod
    @jax.jit
    def plain(value):
        return value + 2

    @jax.jit
    def without_instance(value):
        return value + 3


def without_addresses(value):
    return re.sub(r"0x[0-9a-f]+", "0x", str(value))


def pickled(function):
    """What comes back of a function that is written and read."""
    again = pickle.loads(pickle.dumps(function))
    return type(again).__name__, again.__name__, float(again(3.0)), sorted(vars(again))


def copied(function):
    again = function(scaled)
    return type(again).__name__ == type(scaled).__name__, again is scaled, float(again(3.0)), again.__name__


def wrapped_by(function):
    @functools.wraps(function)
    def outer(*arguments):
        return function(*arguments)

    return outer.__name__, outer.__doc__, outer.__module__, outer.__wrapped__ is function, sorted(vars(outer)), float(outer(3.0))


def attributes_of(function):
    """All that a program can see of it, but for what is a matter of the class."""
    names = [name for name in dir(function) if name not in dir(object)]
    class_of = function.__class__
    assert isinstance(function, class_of) and isinstance(function, type(scaled))
    return class_of.__name__, class_of.__module__, names, sorted(vars(function)), function.__annotations__


def sets_attributes():
    function = jax.jit(lambda value: value)
    function.note = "mine"
    seen = [function.note, "note" in vars(function), hasattr(function, "absent")]
    del function.note
    return seen + [hasattr(function, "note")]


def bound():
    model = Model()
    method = model.times
    seen = [type(method).__name__, method.__name__, method.__self__ is model, method.__func__ is Model.times, float(method(2.0))]
    seen += [method == model.times, hash(method) == hash(model.times), inspect.ismethod(method), float(Model.plain(1.0))]
    seen += [float(method.lower(model, 2.0).compile()(2.0)), str(inspect.signature(method)), Model.times is Model.__dict__["times"]]
    return seen + [float(Model.without_instance(1.0)), float(copy.deepcopy(model).times(2.0))]


def held():
    """As a key, in a set, in trees."""
    other = jax.jit(scale)
    table = {scaled: 1, other: 2, decorated: 3}
    leaves, tree = jax.tree_util.tree_flatten({"f": scaled, "g": [other, 1.0]})
    partial = jax.tree_util.Partial(scaled, 3.0)
    through = jax.jit(lambda f, value: f(value))(partial, 4.0)
    same = jax.tree_util.tree_structure(partial) == jax.tree_util.tree_structure(jax.tree_util.Partial(scaled, 5.0))
    seen = [len(table), table[scaled], scaled in {scaled}, other in {scaled}, scaled == other, scaled == scaled, float(through), same]
    return seen + [len(leaves), leaves[0] is scaled, without_addresses(tree), collections.Counter([scaled, scaled])[scaled]]


def stages():
    traced, lowered = scaled.trace(3.0), scaled.lower(3.0, factor=4.0)
    seen = [type(traced).__name__, traced.fun_name, str(traced.jaxpr), type(lowered).__name__, lowered.as_text()]
    seen += [float(lowered.compile()(3.0, factor=4.0)), str(scaled.eval_shape(3.0)), scaled.clear_cache()]
    return seen + [isinstance(scaled, jax.stages.Wrapped), float(scaled(3.0)), len(jax.export.export(scaled)(3.0).mlir_module())]


def transformed():
    values = jnp.arange(4.0)
    seen = [float(jax.grad(scaled)(3.0)), jax.vmap(scaled)(values).tolist(), str(jax.make_jaxpr(scaled)(3.0)), float(jax.jit(scaled)(3.0))]
    seen += [float(jax.jvp(scaled, (3.0,), (1.0,))[1]), float(jax.checkpoint(scaled)(3.0)), jax.vmap(jax.grad(scaled))(values).tolist()]
    seen += [float(functools.partial(scaled, factor=5.0)(2.0)), jax.vmap(scaled).__name__, jax.lax.map(scaled, values).tolist()]
    return seen + [str(jax.eval_shape(scaled, 3.0)), float(jax.lax.scan(lambda c, v: (decorated(c), v), 0.0, values)[0])]


def static():
    power = jax.jit(lambda value, n: value**n, static_argnums=1)
    named = jax.jit(lambda value, *, n: value**n, static_argnames="n")
    as_decorator = jax.jit(static_argnums=1)(lambda value, n: value**n)
    calls = jax.jit(lambda value, function: function(value), static_argnums=1)
    seen = [float(power(2.0, 3)), float(named(2.0, n=4)), float(as_decorator(2.0, 5)), float(calls(2.0, scaled))]
    return seen + [power._cache_size(), power(2.0, 4).item(), power._cache_size(), str(jax.eval_shape(power, 2.0, 3))]


def donated():
    gives = jax.jit(lambda value: value + 1, donate_argnums=0)
    first = jnp.arange(1024.0)
    second = gives(first)
    return [first.is_deleted(), second.is_deleted(), float(second.sum())]


def unhashable():
    return jax.jit(lambda value, n: value, static_argnums=1)(2.0, [3])


SEEN = {
    "pickle of a jitted function": lambda: pickled(scaled),
    "pickle in a container": lambda: float(pickle.loads(pickle.dumps({"f": [scaled]}))["f"][0](2.0)),
    "pickle of a decorated function": lambda: pickled(decorated),
    "pickle of a jitted lambda": lambda: pickled(jax.jit(lambda value: value)),
    "pickle of a partial": lambda: float(pickle.loads(pickle.dumps(functools.partial(scaled, factor=4.0)))(2.0)),
    "all protocols": lambda: [float(pickle.loads(pickle.dumps(scaled, protocol))(2.0)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)],
    "pickle of jax.jit": lambda: pickle.loads(pickle.dumps(jax.jit)) is jax.jit,
    "pickle of functions of NumPy and pickle": lambda: [pickle.loads(pickle.dumps(f)) is f for f in (np.save, np.savez, pickle.dump)],
    "pickle of device_put": lambda: [pickle.loads(pickle.dumps(f)) is f for f in (jax.device_put, jax.device_get, jax.eval_shape)],
    "cloudpickle": lambda: float(pickle.loads(__import__("cloudpickle").dumps(decorated))(2.0)),
    "copy": lambda: copied(copy.copy),
    "deepcopy": lambda: copied(copy.deepcopy),
    "deepcopy in a container": lambda: float(copy.deepcopy({"f": [scaled, scaled]})["f"][1](2.0)),
    "deepcopy keeps what is one": lambda: (lambda pair: pair[0] is pair[1])(copy.deepcopy([scaled, scaled])),
    "wraps": lambda: wrapped_by(scaled),
    "signature": lambda: [str(inspect.signature(f)) for f in (scaled, decorated, jax.jit, Model.times)],
    "documentation": lambda: [scaled.__doc__, inspect.getdoc(scaled), scaled.__module__, scaled.__qualname__, inspect.unwrap(scaled) is scale],
    "source": lambda: inspect.getsource(decorated),
    "kinds": lambda: [f(scaled) for f in (callable, inspect.isfunction, inspect.ismethod, inspect.isclass, inspect.isroutine, inspect.isbuiltin)],
    "texts": lambda: [without_addresses(scaled), without_addresses(repr(Model().times)), "%s" % without_addresses(decorated)],
    "attributes": lambda: attributes_of(scaled),
    "attributes that are set": sets_attributes,
    "methods": bound,
    "trees": held,
    "stages": stages,
    "transformations": transformed,
    "static arguments": static,
    "donation": donated,
    "an argument too few": lambda: scaled(),
    "an argument of another kind": lambda: scaled("text"),
    "a static argument without a hash": unhashable,
}


def objects():
    """What a program sees of jitted functions, before and after the update is known; what raises is told by its error."""
    said = []
    for when in ("before", "after"):
        for name, see in SEEN.items():
            try:
                result = see()
            except Exception as error:
                result = "%s: %s" % (type(error).__name__, without_addresses(error).splitlines()[0])
            said.append("%s, %s the update: %s" % (name, when, result))
        value = 1.0
        for _ in range(3):
            value = decorated(value)
    truth["said"] = said


globals()[sys.argv[1]](*sys.argv[2:])
print(json.dumps(truth))
