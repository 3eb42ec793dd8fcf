# SPDX-License-Identifier: Apache-2.0
"""Stands for tests/gpu/jax_loop.py in a rehearsal."""
import json
import os
import sys

import device

os.environ["FAKE_KINETO"] = "jax"
count = int(sys.argv[1])
before = device.steps(count)
device.profiler(True, tell=False)
device.steps(count)
device.profiler(False, tell=False)
after = device.steps(count)
print(json.dumps({"steps": count, "jax": "substitute", "before_ns": before, "after_ns": after, "trace_bytes": 4096}))
