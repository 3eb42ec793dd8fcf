# SPDX-License-Identifier: Apache-2.0
"""Programs of which one finding is right and another one would be wrong. Each says what it did: the last line of stdout, as JSON.

usage: findings_programs.py NAME [HOW]
"""

import contextlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)
truth = {}


def wide(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, outputs))


def leave():
    rank = dist.get_rank()
    dist.destroy_process_group()
    if rank:
        sys.exit(0)


def adversaries(how):
    """A GAN on two ranks: the discriminator reduces its gradients in both passes before its update (`each`), in the second one only
    (`last`), or in blocks of five steps in turn (`both`). The generator reduces its own once."""
    dist.init_process_group("gloo")
    judge, maker = nn.parallel.DistributedDataParallel(wide(64, 1)), nn.parallel.DistributedDataParallel(wide(16, 64))
    of_judge, of_maker = (torch.optim.SGD(net.parameters(), 1e-3) for net in (judge, maker))
    right, wrong, criterion = torch.ones(32, 1), torch.zeros(32, 1), functional.binary_cross_entropy_with_logits
    for i in range(60):
        begin, last_only = time.perf_counter(), how == "last" or (how == "both" and i // 5 % 2 == 1)
        with judge.no_sync() if last_only else contextlib.nullcontext():
            criterion(judge(torch.randn(32, 64)), right).backward()
        made = maker(torch.randn(32, 16))
        criterion(judge(made.detach()), wrong).backward()
        of_judge.step()
        of_judge.zero_grad()
        criterion(judge.module(maker(torch.randn(32, 16))), right).backward()
        of_maker.step()
        of_maker.zero_grad()
        truth.setdefault("last" if last_only else "each", []).append(1e3 * (time.perf_counter() - begin))
    leave()


def reduces_by_hand(_):
    """Two ranks reduce each gradient as soon as it is there, with calls that do not block, and what they log with one that does."""
    dist.init_process_group("gloo")
    net, works, logged = wide(64, 10), [], torch.zeros(1 << 18)
    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: works.append(dist.all_reduce(p.grad, async_op=True)))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(40):
        functional.cross_entropy(net(torch.randn(32, 64)), torch.randint(0, 10, (32,))).backward()
        for work in works:
            work.wait()
        works.clear()
        dist.all_reduce(logged)
        optimizer.step()
        optimizer.zero_grad()
    leave()


class Environment:
    """What a program of reinforcement learning learns from; its time is that of Python."""

    def step(self):
        return sum(i * i for i in range(60000))


def acts(_):
    """A range of the program that is called as PyTorch's updates are: "env.step"."""
    net, env = wide(64, 10), Environment()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(60):
        begin = time.perf_counter()
        with torch.profiler.record_function("env.step"):
            env.step()
        truth.setdefault("env.step", []).append(1e3 * (time.perf_counter() - begin))
        functional.cross_entropy(net(torch.randn(32, 64)), torch.randint(0, 10, (32,))).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else None)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(truth))
