# SPDX-License-Identifier: Apache-2.0
"""The substitute driver, CUPTI and torch.profiler of tests/targets for the rehearsal's Python programs."""
import ctypes
import os
import time

LAUNCH, GRAPH = 0, 6


class Call(ctypes.Structure):
    """struct fake_call of tests/targets/fake_gpu.h."""

    _fields_ = [("what", ctypes.c_int), ("driver", ctypes.c_int), ("stream", ctypes.c_uint32), ("event", ctypes.c_uint32),
                ("bytes", ctypes.c_uint64), ("kernel", ctypes.c_char_p), ("graph_node", ctypes.c_uint64), ("endless", ctypes.c_int),
                ("nodes", ctypes.c_uint32), ("host_ns", ctypes.c_uint32), ("start", ctypes.c_uint64), ("end", ctypes.c_uint64),
                ("operations", ctypes.c_uint64)]


KERNELS = [b"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", b"_Z9vectorAddPKfS0_Pfi", b"layer_norm_kernel"]
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)


def step(count=30, graph=False):
    """Kernels of 100 microseconds, and a wait for the last one."""
    at = time.time_ns()
    if graph:
        cuda.fake_cuda_call(ctypes.byref(Call(what=GRAPH, stream=7, kernel=KERNELS[0], nodes=count, start=at, end=at + count * 100000)))
    for i in range(0 if graph else count):
        cuda.fake_cuda_call(ctypes.byref(Call(what=LAUNCH, stream=7, kernel=KERNELS[i % 3], start=at + i * 100000, end=at + (i + 1) * 100000)))
    time.sleep(max(0.0, (at + count * 100000 - time.time_ns()) / 1e9))


def steps(count, **how):
    begin = time.monotonic_ns()
    for _ in range(count):
        step(**how)
    return [begin, time.monotonic_ns()]


def profiler(active, tell=True):
    """The stand-in for torch.profiler, and what the Python hook tells tacho about it."""
    tacho, told = os.environ.get("CUDA_INJECTION64_PATH"), None
    if tacho and tell:
        told = ctypes.CDLL(tacho).tacho_device_profiler
    if active and told:
        told(1)
    cupti = ctypes.CDLL("libcupti.so.13")
    cupti.fake_kineto(int(active))
    if not active and told:
        told(0)
