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
import os
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


def parameters(width=512):
    first, second = jax.random.split(jax.random.PRNGKey(0))
    return {"w": jax.random.normal(first, (64, width)) * 0.05, "out": jax.random.normal(second, (width, 10)) * 0.05}


def loss_of(weights, x, y):
    return jnp.mean((jnp.maximum(x @ weights["w"], 0) @ weights["out"] - y) ** 2)


def batch(rows=256):
    return rng.standard_normal((rows, 64), dtype=np.float32), rng.standard_normal((rows, 10), dtype=np.float32)


@jax.jit
def update(weights, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    return jax.tree_util.tree_map(lambda w, g: w - 0.01 * g, weights, gradients), loss


def timed(what, function, *arguments):
    begin = time.perf_counter()
    result = function(*arguments)
    truth.setdefault(what, []).append(1e3 * (time.perf_counter() - begin))
    return result


def saves(how):
    """After each step a file: metrics in the ways that programs write them, or weights."""
    weights, losses, marks = parameters(), [], how == "metrics where the program marks its steps"

    def save(folder):
        path = folder + "/" + str(len(losses) % 2)
        history = np.array(losses, dtype=np.float32)
        if how == "weights as arrays of NumPy":
            np.savez(path, **jax.device_get(weights))
        elif how == "weights one by one":
            for name, value in weights.items():
                np.save(path + name, value)
        elif how == "weights as one vector":
            np.save(path, np.concatenate([np.asarray(value).ravel() for value in weights.values()]))
        elif how == "weights beside other things":
            with open(path, "wb") as file:
                pickle.dump({"step": len(losses), "state": [weights, history]}, file)
        else:
            np.save(path, history)
            np.savez(path, losses=history, last=np.float32(losses[-1]), gradient=losses[-1])
            np.save(path, {"losses": losses}, allow_pickle=True)
            with open(path, "wb") as file:
                pickle.dump({"losses": losses, "history": history}, file)

    if marks:
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "profiler", "python"))
        import tacho
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(STEPS):
            weights, loss = update(weights, *batch())
            losses.append(loss)
            jax.block_until_ready(loss)
            timed("save", save, folder)
            if marks:
                tacho.step()


def augments():
    """A jitted function that a thread calls for each batch; `statistics` are passed on from batch to batch."""

    @jax.jit
    def augment(statistics, x):
        statistics = 0.9 * statistics + 0.1 * x.mean(axis=0)
        return statistics, x - statistics

    return augment


def train(batches):
    """By a function whose name does not say that it trains."""

    @jax.jit
    def move(weights, x, y):
        return update(weights, x, y)

    weights, loss = parameters(), None
    for x, y in batches:
        begin = time.perf_counter()
        weights, loss = move(weights, x, y)
        jax.block_until_ready(loss)
        truth.setdefault("step", []).append(1e3 * (time.perf_counter() - begin))


def prefetches(how):
    """Batches are made by a jitted function on another thread, two of which are ready before the training begins. `statistics`: it passes
    something on from one call to the next one."""
    augment, ready, made = augments(), queue.Queue(4), threading.Event()

    def read():
        statistics = jnp.zeros(64)
        for i in range(STEPS):
            x, y = batch()
            after, x = augment(statistics, x)
            statistics = after if how == "statistics" else statistics
            ready.put((x, y))
            if i == 3:
                made.set()

    thread = threading.Thread(target=read)
    thread.start()
    made.wait()
    train(ready.get() for _ in range(STEPS))
    thread.join()


def in_a_thread(how):
    """All of the training is on another thread; the main thread has called a jitted function before."""
    if how == "after the main thread":
        jax.block_until_ready(scaled(jnp.ones(4)))
    thread = threading.Thread(target=train, args=([batch() for _ in range(STEPS)],))
    thread.start()
    thread.join()


def searches(_):
    """Three trainings, each with an update of its own, as in a search for a learning rate."""
    for _ in range(3):
        train([batch() for _ in range(STEPS)])


def stages(_):
    """A stage of training follows another one; a running mean is passed on in both."""

    @jax.jit
    def mean_of(mean, loss):
        return 0.9 * mean + 0.1 * loss

    @jax.jit
    def train_last(out, hidden, y):
        gradient = jax.grad(lambda out: jnp.mean((hidden @ out - y) ** 2))(out)
        return out - 0.01 * gradient

    weights, mean = parameters(), jnp.zeros(())
    for _ in range(STEPS):
        weights, loss = update(weights, *batch())
        mean = mean_of(mean, loss)
    out = weights["out"]
    for _ in range(2 * STEPS):
        x, y = batch()
        out = train_last(out, jnp.maximum(x @ weights["w"], 0), y)
        mean = mean_of(mean, out[0, 0])
    jax.block_until_ready(out)


def generates(how):
    """The batches come from a generator of the program, for which the device waits."""
    weights, rows, loss = parameters(), np.arange(64 * 4096, dtype=np.float32).reshape(4096, 64), None

    def generator():
        for _ in range(6 * STEPS):
            begin = time.perf_counter()
            x, y = batch()
            picked = np.sort(rows[rng.permutation(4096)], axis=0)  # of the generator
            truth.setdefault("batch", []).append(1e3 * (time.perf_counter() - begin))
            yield x + picked[:256] * 0, y

    begin = time.perf_counter()
    for x, y in generator():
        for _ in range(int(how)):
            weights, loss = update(weights, x, y)
        truth.setdefault("step", []).append(1e3 * (time.perf_counter() - begin))
        begin = time.perf_counter()
    jax.block_until_ready(loss)


def prints():
    """The loss is printed in each of the ways that people know."""
    weights, texts, held = parameters(), [], batch(4096)
    for _ in range(STEPS // 2):
        weights, loss = update(weights, *held)
        texts.append(timed("format", lambda: f"{loss:.4f}"))  # of format
        weights, loss = update(weights, *held)
        texts.append(timed("str", lambda: str(loss)))  # of str
        weights, loss = update(weights, *held)
        texts.append(timed("repr", lambda: repr(loss)))  # of repr
        weights, loss = update(weights, *held)
        texts.append(timed("tobytes", lambda: loss.tobytes()))  # of tobytes


globals()[sys.argv[1]](*sys.argv[2:])
print(json.dumps(truth))
