# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training loop on the CPU, to measure what the Python hook costs it: see hook.sh.

usage: hook_loop.py MODEL alternate SECONDS    under tacho: blocks with and without the hook in turn, then all with it; JSON on stdout
       hook_loop.py MODEL turns                waits for its turns (hook_turns.py); TURN_IN and TURN_OUT name two fifos

MODEL is tiny (steps of milliseconds, most of them Python: the worst case) or normal (steps of about 100 ms), in which one thread
computes; or short or team (steps of about 2 and 50 ms), in which a team of threads computes on all cores. A team waits for its slowest
thread, so that tacho's own work delays it: there the clock counts, else CPU time.
"""

import gc
import json
import os
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

SIZES = {"tiny": (16, 24, 1, 4), "normal": (256, 6, 64, 4), "short": (64, 2, 16, 4), "team": (256, 6, 64, 4)}
WIDTH, LAYERS, SEQ, BATCH = SIZES[sys.argv[1]]
NORMAL, TEAM = sys.argv[1] != "tiny", sys.argv[1] in ("short", "team")


class Block(torch.nn.Module):
    """Of a transformer, or where that would be too slow, of two matrices."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.attn = torch.nn.MultiheadAttention(WIDTH, 4, batch_first=True) if NORMAL else None
        self.mlp = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        y = self.norm(x)
        if self.attn is not None:
            x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(y)


class Tokens(Dataset):
    def __init__(self):
        self.rows = torch.randint(0, 256, (1024, SEQ + 1))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Switch:
    """Takes away what the hook has put into PyTorch, and puts it back. Without the hook there is nothing, and nothing happens."""

    def __init__(self, batches):
        modules, optimizers = torch.nn.modules.module, sys.modules["torch.optim.optimizer"]
        tables = [getattr(modules, "_global_forward_" + name, None) for name in ("pre_hooks", "hooks", "hooks_always_called")]
        tables += [getattr(optimizers, "_global_optimizer_" + name, None) for name in ("pre_hooks", "post_hooks")]
        self.tables = [(t, dict(t)) for t in tables if t]
        owners = ((torch.autograd, "backward"), (torch.utils.data.dataloader._BaseDataLoaderIter, "__next__"))
        owners += ((torch.utils.data._utils.fetch._MapDatasetFetcher, "fetch"), (torch.optim.Optimizer, "zero_grad"))
        owners += tuple((torch.autograd.profiler.record_function, name) for name in ("__enter__", "__exit__"))
        owners += ((torch.nn.functional, "cross_entropy"),)
        found = [(owner, name, getattr(owner, name)) for owner, name in owners]  # PyTorch wraps some of its functions itself
        self.functions = [row for row in found if "tacho_hook" in row[2].__code__.co_filename]
        self.callbacks = list(gc.callbacks)
        self.fetcher = batches._dataset_fetcher
        self.collate = self.fetcher.collate_fn

    def put(self, on):
        for table, kept in self.tables:
            table.clear()
            if on:
                table.update(kept)
        for owner, name, hooked in self.functions:
            setattr(owner, name, hooked if on else hooked.__wrapped__)
        gc.callbacks[:] = self.callbacks if on else []
        self.fetcher.collate_fn = self.collate if on else torch.utils.data.default_collate


class Training:
    def __init__(self):
        torch.manual_seed(1)
        torch.set_num_threads(len(os.sched_getaffinity(0)) if TEAM else 1)
        self.model = torch.nn.Sequential(torch.nn.Embedding(256, WIDTH), *[Block() for _ in range(LAYERS)], torch.nn.Linear(WIDTH, 256))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        sampler = (i % 1024 for i in range(1 << 60))
        self.batches = iter(DataLoader(Tokens(), batch_size=BATCH, sampler=sampler))

    def steps(self, count):
        """CPU time of this thread, in ns."""
        begin = time.thread_time_ns()
        for _ in range(count):
            batch = next(self.batches)
            loss = torch.nn.functional.cross_entropy(self.model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return time.thread_time_ns() - begin


def cpu_of(pid):
    """CPU time of all threads of a process, in ns."""
    tasks = "/proc/%d/task" % pid
    return sum(int(open("%s/%s/schedstat" % (tasks, t)).read().split()[0]) for t in os.listdir(tasks))


def alternate(t, seconds):
    t.steps(20)  # the hook chooses its levels
    switch = Switch(t.batches)
    block = 1 if NORMAL else 4
    pairs, begin, on_first = [], time.monotonic(), False
    while time.monotonic() - begin < seconds:
        took = {}
        on_first = not on_first
        for on in (on_first, not on_first):
            switch.put(on)
            took[on] = t.steps(block)
        pairs.append((took[False], took[True]))
    switch.put(True)
    wall, own, all_threads, collector = time.monotonic_ns(), time.thread_time_ns(), time.process_time_ns(), cpu_of(os.getppid())
    while time.monotonic_ns() - wall < 0.3e9 * seconds:
        t.steps(block)
    wall = time.monotonic_ns() - wall
    own, all_threads = time.thread_time_ns() - own, time.process_time_ns() - all_threads
    result = {
        "pairs": pairs,
        "steps": block,
        "threads_pct": 100 * (all_threads - own) / own,
        "collector_pct": 100 * (cpu_of(os.getppid()) - collector) / wall,
        "modules": sum(1 for _ in t.model.modules()),
    }
    print(json.dumps(result))


def turns(t):
    with open(os.environ["TURN_IN"]) as commands, open(os.environ["TURN_OUT"], "w") as answers:
        for line in commands:
            clock = time.perf_counter_ns if TEAM else time.process_time_ns
            begin = clock()
            t.steps(int(line))
            print(clock() - begin, file=answers, flush=True)


if sys.argv[2] == "alternate":
    alternate(Training(), float(sys.argv[3]))
else:
    turns(Training())
