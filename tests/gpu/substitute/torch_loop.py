# SPDX-License-Identifier: Apache-2.0
"""Stands for tests/gpu/torch_loop.py in a rehearsal: the same modes and books, kernels of the substitute driver."""
import json
import os
import subprocess
import sys
import time

import device

COUNT, NAMES = 30, [b"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", b"vectorAdd(float const*, float const*, float*, int)",
                    b"layer_norm_kernel"]


def profiled(count, **how):
    device.profiler(True)
    device.steps(count, **how)
    device.profiler(False)
    return {"profiled_steps": count, "profiled_step_ms": COUNT * 0.1 + 1, "kernels": COUNT * count, "kernel_ms": COUNT * count * 0.1,
            "names": [name.decode() for name in NAMES]}


def plain(steps, then_profiled=0):
    device.steps(2)
    window = device.steps(steps)
    out = {"steps": steps, "step_ms": (window[1] - window[0]) / steps / 1e6, "window_ns": window}
    return {**out, **profiled(then_profiled)} if then_profiled else out


def inside(steps, **how):
    before = device.steps(steps // 2, **how)
    books = profiled(4, **how)
    after = device.steps(steps // 2, **how)
    return {**books, "before_ns": before, "before_steps": steps // 2, "after_ns": after, "after_steps": steps // 2}


def loader(steps):
    for _ in range(4):
        if os.fork() == 0:
            time.sleep(0.2)
            os._exit(0)
    device.steps(steps)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return {"steps": steps, "workers": 4}


def nccl(calls):
    """The program that plays NCCL towards its profiler plugin (tests/targets/target_nccl.c)."""
    player = os.path.join(os.path.dirname(os.path.abspath(__file__)), "target_nccl")
    subprocess.run([player, "5", str(calls)], check=True, stdout=subprocess.DEVNULL)
    return {"calls": calls, "nccl": "played", "said": ""}


def turns():
    device.steps(2)
    return {"blocks_ms": [3.0 + 0.01 * int(sys.argv[4])] * 6, "host_ms": [1.0] * 6}


def main():
    mode, steps = sys.argv[1], int(sys.argv[2])
    modes = {"plain": lambda: plain(steps), "both": lambda: plain(steps, 10), "inside": lambda: inside(steps),
             "compile": lambda: inside(steps, graph=True), "loader": lambda: loader(steps), "nccl": lambda: nccl(steps),
             "turns": turns, "profiled": turns, "fast": lambda: {"steps": steps, "step_ms": 1e6}}
    print(json.dumps(modes[mode]()))


main()
