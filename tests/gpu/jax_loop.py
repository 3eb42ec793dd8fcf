# SPDX-License-Identifier: Apache-2.0
"""A loop of JAX for tests/gpu: STEPS steps, STEPS under jax.profiler, STEPS again. Prints one line of JSON."""
import json
import os
import sys
import tempfile
import time

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    print(json.dumps({"missing": "JAX"}))
    sys.exit(0)
if jax.default_backend() != "gpu" and os.environ.get("JAX_LOOP_DEVICE") != "cpu":
    print(json.dumps({"missing": "a GPU that JAX can use"}))
    sys.exit(0)


@jax.jit
def step(weights, x):
    def loss(w):
        return jnp.mean(jnp.tanh(x @ w) ** 2)

    return weights - 1e-3 * jax.grad(loss)(weights)


def steps(weights, x, count):
    begin = time.monotonic_ns()
    for _ in range(count):
        weights = step(weights, x)
    weights.block_until_ready()
    return weights, [begin, time.monotonic_ns()]


def main():
    count = int(sys.argv[1])
    x = jnp.ones((4096, 2048), jnp.bfloat16)
    weights, _ = steps(jnp.ones((2048, 2048), jnp.bfloat16), x, 3)
    weights, before = steps(weights, x, count)
    trace = 0
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            weights, _ = steps(weights, x, count)
        for parent, _, names in os.walk(folder):
            trace += sum(os.path.getsize(os.path.join(parent, name)) for name in names)
    pause = time.monotonic() + float(os.environ.get("JAX_LOOP_PAUSE", "10"))
    while time.monotonic() < pause:  # tacho sees by itself that JAX's profiler has ended: launches go on, and nobody records them
        weights, _ = steps(weights, x, 10)
    weights, after = steps(weights, x, count)
    print(json.dumps({"steps": count, "jax": jax.__version__, "before_ns": before, "after_ns": after, "trace_bytes": trace}))


main()
