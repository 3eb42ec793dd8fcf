# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX as people write them. Each times itself; the last line of stdout is what it measured, as JSON.

usage: jax_programs.py NAME [FOLDER]
"""

import contextlib
import copy
import functools
import json
import os
import pickle
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

truth = {}
rng = np.random.default_rng(0)


@contextlib.contextmanager
def timed(what):
    begin = time.perf_counter()
    yield
    truth.setdefault(what, []).append(1e3 * (time.perf_counter() - begin))


def parameters():
    first, second = jax.random.split(jax.random.PRNGKey(0))
    return {"w": jax.random.normal(first, (64, 512)) * 0.05, "out": jax.random.normal(second, (512, 10)) * 0.05}


def loss_of(weights, x, y):
    return jnp.mean((jnp.maximum(x @ weights["w"], 0) @ weights["out"] - y) ** 2)


def batch(rows=256):
    return rng.standard_normal((rows, 64), dtype=np.float32), rng.standard_normal((rows, 10), dtype=np.float32)


@jax.jit
def update(weights, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    return jax.tree_util.tree_map(lambda w, g: w - 0.01 * g, weights, gradients), loss


@functools.partial(jax.jit, static_argnums=0)
def evaluate(scale, weights, x):
    return (x @ weights["w"]).sum() * scale


def trains():
    """One jitted update, a loss every tenth step, and a last batch of the epoch that is smaller."""
    weights = parameters()
    for i in range(60):
        with timed("step"):
            weights, loss = update(weights, *batch(200 if i == 30 else 256))
            if i % 10 == 9:
                with timed("float"):
                    float(loss)
    evaluate(2, weights, batch()[0]).block_until_ready()


def plain():
    """Nothing is jitted."""
    weights = parameters()
    for _ in range(20):
        gradients = jax.grad(loss_of)(weights, *batch())
        weights = {name: weights[name] - 0.01 * gradients[name] for name in weights}


def batches_from_a_key():
    """A jitted function makes batches and passes its key on, four times a step."""

    @jax.jit
    def draw(key):
        key, first, second = jax.random.split(key, 3)
        return key, jax.random.normal(first, (64, 64)), jax.random.normal(second, (64, 10))

    weights, key = parameters(), jax.random.PRNGKey(0)
    for _ in range(40):
        for _ in range(4):
            key, x, y = draw(key)
        weights, loss = update(weights, x, y)
    jax.block_until_ready(loss)


def shapes():
    """Batches of a length that changes all the time."""
    weights = parameters()
    for i in range(40):
        weights, loss = update(weights, *batch(64 + 4 * (i // 4)))
    jax.block_until_ready(loss)


def optimizer():
    """Gradients and update in two functions, as with optax: the update is the one that is given what it returned."""
    weights = parameters()
    momentum = jax.tree_util.tree_map(jnp.zeros_like, weights)
    gradients_of = jax.jit(jax.value_and_grad(loss_of))

    @jax.jit
    def apply(weights, momentum, gradients):
        momentum = jax.tree_util.tree_map(lambda m, g: 0.9 * m + g, momentum, gradients)
        return jax.tree_util.tree_map(lambda w, m: w - 0.01 * m, weights, momentum), momentum

    for _ in range(40):
        _, gradients = gradients_of(weights, *batch())
        weights, momentum = apply(weights, momentum, gradients)
        truth["steps"] = truth.get("steps", 0) + 1
    jax.block_until_ready(weights)


def host():
    """A batch that is made in Python while the device has nothing to do."""
    weights = parameters()

    def augment(x):
        return x + sum(i * 0.5 for i in range(60000)) * 0

    for _ in range(240):
        with timed("step"):
            x, y = batch()
            with timed("augment"):
                x = augment(x)
            weights, loss = update(weights, x, y)
            jax.block_until_ready(loss)


@jax.jit
def eval_step(weights, x, y):
    return loss_of(weights, x, y)


def looks(folder="."):
    """A training loop that evaluates on ten batches and writes its weights every tenth step."""
    weights = parameters()
    held = [batch(2048) for _ in range(10)]
    for i in range(60):
        weights, loss = update(weights, *batch())
        if i % 10 == 9:
            jax.block_until_ready(loss)
            with timed("evaluation"):
                total = 0.0
                for x, y in held:
                    total += float(eval_step(weights, x, y))
            with timed("checkpoint"):
                np.savez(os.path.join(folder, "weights.npz"), **weights)
            with timed("pickle"), open(os.path.join(folder, "weights.pickle"), "wb") as file:
                pickle.dump(weights, file)
    truth["total"] = total


def keeps():
    """A list of what each step returned."""
    weights, kept_arrays = parameters(), []
    for _ in range(300):
        with timed("step"):
            weights, loss = update(weights, *batch())
            kept_arrays.append(jnp.ones(1 << 18) * loss)
            jax.block_until_ready(kept_arrays[-1])
            time.sleep(0.015)  # memory is sampled ten times a second, and a slope needs some samples


def flax(folder):
    """Flax, Optax and Orbax: one jitted update of a state, and checkpoints in the background."""
    import optax
    import orbax.checkpoint
    from flax import linen
    from flax.training import train_state

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(10)(linen.relu(linen.Dense(512)(x)))

    net = Net()
    weights = net.init(jax.random.PRNGKey(0), batch()[0])
    state = train_state.TrainState.create(apply_fn=net.apply, params=weights, tx=optax.adam(1e-3))

    @jax.jit
    def train_step(state, x, y):
        loss, gradients = jax.value_and_grad(lambda w: jnp.mean((state.apply_fn(w, x) - y) ** 2))(state.params)
        return state.apply_gradients(grads=gradients), loss

    manager = orbax.checkpoint.CheckpointManager(os.path.abspath(os.path.join(folder, "flax")))
    for i in range(60):
        state, loss = train_step(state, *batch())
        if i % 20 == 19:
            with timed("save"):
                manager.save(i, args=orbax.checkpoint.args.StandardSave(state.params))
    manager.wait_until_finished()
    jax.block_until_ready(loss)


def objects():
    """A jitted function stays what it is: protocol, attributes, methods, decorators, copies, transformations, errors."""
    weights = parameters()
    x, y = batch()

    class Model:
        factor = 3.0

        @functools.partial(jax.jit, static_argnums=0)
        def scaled(self, value):
            return value * self.factor

    assert Model().scaled(2.0) == 6.0 and isinstance(update, jax.stages.Wrapped) and update.__name__ == "update"
    assert jax.grad(lambda w: update(dict(weights, w=w), x, y)[1])(weights["w"]).shape == (64, 512)
    assert jax.vmap(lambda row: evaluate(2, weights, row[None]))(x).shape == (256,)
    assert "module" in update.lower(weights, x, y).as_text() and update.eval_shape(weights, x, y)[1].shape == ()
    assert update.__wrapped__ is not None and copy.copy(update)(weights, x, y)[1].shape == ()
    assert jax.jit(update)(weights, x, y)[1].shape == ()
    assert jax.jit(static_argnames="n")(lambda value, n: value * n)(2.0, n=3) == 6.0
    try:
        update(weights)
    except TypeError as error:
        assert "missing" in str(error), error
    update.clear_cache()
    assert float(np.asarray(evaluate(2, weights, x))) == evaluate(2, weights, x).item()


globals()[sys.argv[1]](*sys.argv[2:])
print(json.dumps(truth))
