#!/ usr / bin / env python3
#SPDX - License - Identifier : Apache - 2.0
"""Writes tests/golden/optimizer_reference.txt: where optax, in double, ends after 20 updates of a
small problem, and its losses before the first and after the last update. Needs `pip install optax`.

The problem, which test_lt_optimizer_reference.c builds again from the same linear congruence:
f(W, b) = 1/16 sum c (tanh(X W + b) - Y)^2 with X[8,4], W[4,6], b[6], Y[8,6], c[6]."""
import sys

import jax
import numpy

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from optax import contrib  # noqa: E402

RATE = 0.01
OPTIMIZERS = {
    "sgd": optax.sgd(RATE),
    "momentum": optax.sgd(RATE, momentum=0.9),
    "nesterov": optax.sgd(RATE, momentum=0.9, nesterov=True),
    "adagrad": optax.adagrad(RATE, initial_accumulator_value=0.0),
    "rmsprop": optax.rmsprop(RATE, decay=0.99, eps_in_sqrt=False),
    "rmsprop-root": optax.rmsprop(RATE, decay=0.99, eps_in_sqrt=True),
    "adam": optax.adam(RATE),
    "adamw": optax.adamw(RATE, weight_decay=0.1),
    "nadam": optax.nadam(RATE),
    "radam": optax.radam(RATE),
    "lion": optax.lion(RATE, b1=0.9, b2=0.99, weight_decay=0.1),
    "lamb": optax.lamb(RATE, weight_decay=0.01),
    "lars": optax.lars(RATE, weight_decay=1e-4),
    "adafactor": optax.adafactor(RATE, min_dim_size_to_factor=2),
    "muon": contrib.muon(RATE),
    "schedule-free": contrib.schedule_free_adamw(RATE),
    "lbfgs": optax.lbfgs(learning_rate=0.5, memory_size=10, linesearch=None),
}


def drawn(*shape):
    values = []
    for _ in range(int(numpy.prod(shape))):
        drawn.state = (1103515245 * drawn.state + 12345) % 2**31
        values.append(drawn.state / 2**31 * 2 - 1)
    return numpy.array(values).reshape(shape)


def main():
    drawn.state = 12345
    x, y, c = drawn(8, 4), drawn(8, 6) * 0.5, numpy.abs(drawn(6)) + 0.5
    start = {"W": jnp.array(drawn(4, 6)), "b": jnp.array(drawn(6) * 0.1)}

    def loss(p):
        return 0.5 * jnp.sum(c * (jnp.tanh(x @ p["W"] + p["b"]) - y) ** 2) / 8

    with open(sys.argv[1], "w") as out:
        print(f"# optax {optax.__version__}, jax {jax.__version__}: name, loss before and after, W, b", file=out)
        for name, optimizer in OPTIMIZERS.items():
            p, state = start, optimizer.init(start)
            for _ in range(20):
                updates, state = optimizer.update(jax.grad(loss)(p), state, p)
                p = optax.apply_updates(p, updates)
            numbers = [loss(start), loss(p), *numpy.asarray(p["W"]).ravel(), *numpy.asarray(p["b"])]
            print(name, *(f"{float(number):.17g}" for number in numbers), file=out)


main()
