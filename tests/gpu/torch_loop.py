# SPDX-License-Identifier: Apache-2.0
"""Loops of PyTorch for tests/gpu. Prints one line of JSON with the program's own books.

    torch_loop.py MODE STEPS [MODEL BATCH]

plain: steps of GPT-2 124M. both: these, then ten with torch.profiler. inside: torch.profiler over four steps in the middle, as users do.
turns FOLDER INDEX COUNT: one of COUNT programs that run blocks of STEPS steps by turns, so that a machine whose speed changes is the same for all;
profiled: the same, each block with torch.profiler.
compile: the same with torch.compile and CUDA graphs, on a smaller model. loader: batches from workers that fork after CUDA is up.
nccl: STEPS calls of all_reduce with one rank. fast: a step of MODEL (gpt2-124M, gpt2-1558M) as PyTorch does it best: torch.compile, flash
attention, fused AdamW, clipping by the norm; the mean of STEPS steps that are waited for once.

$TORCH_LOOP_DEVICE=cpu runs a tiny model on the processor, to try the script out.
"""
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time

try:
    import torch
except ImportError:
    print(json.dumps({"missing": "PyTorch"}))
    sys.exit(0)
CPU = os.environ.get("TORCH_LOOP_DEVICE") == "cpu"
DEVICE = "cpu" if CPU else "cuda"
if not CPU and not torch.cuda.is_available():
    print(json.dumps({"missing": "a GPU that PyTorch can use"}))
    sys.exit(0)
WARM_UP = 5
SHAPES = {"gpt2-124M": (50304, 768, 12, 12, 1024), "gpt2-1558M": (50304, 1600, 25, 48, 1024)}  # vocabulary, width, heads, layers, context
PROFILED = 4


class Block(torch.nn.Module):
    """A GPT-2 block with causal attention, as in the 124M model."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, dim=2))
        a = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(torch.nn.Module):
    def __init__(self, vocabulary, width, heads, layers, context):
        super().__init__()
        self.token, self.place = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(context, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def synchronize():
    if not CPU:
        torch.cuda.synchronize()


class Loop:
    """A model, its optimizer, and one batch."""

    def __init__(self, shape, batch, compiled=None):
        torch.manual_seed(1)
        shape = (512, 64, 4, 2, 64) if CPU else shape
        self.vocabulary, context = shape[0], shape[4]
        self.model = GPT2(*shape).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=not CPU)
        self.call = torch.compile(self.model, mode=compiled) if compiled else self.model
        self.host_s = []  # of each step: until all of it was launched
        self.ids = torch.randint(0, self.vocabulary, (2 if CPU else batch, context + 1), device=DEVICE)

    def step(self, clip=None, wait=True):
        begin = time.perf_counter()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = self.call(self.ids[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.view(-1, self.vocabulary), self.ids[:, 1:].reshape(-1))
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.host_s.append(time.perf_counter() - begin)
        if wait:
            synchronize()
        return time.perf_counter() - begin

    def steps(self, count):
        """Their median in ms, and the time on CLOCK_MONOTONIC that they lie in."""
        synchronize()
        begin = time.monotonic_ns()
        took = [self.step() for _ in range(count)]
        return statistics.median(took) * 1e3, [begin, time.monotonic_ns()]


def profiled(loop, count):
    """torch.profiler over some steps. What it has as kernels is read from its trace: there each event has a category, and what it
    calls user annotations on the device is none."""
    activities = [torch.profiler.ProfilerActivity.CPU] + ([] if CPU else [torch.profiler.ProfilerActivity.CUDA])
    with torch.profiler.profile(activities=activities) as profiler:
        step_ms = loop.steps(count)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8", errors="replace") as f:
            events = json.load(f)["traceEvents"]
    rows = [e for e in events if e.get("cat") == "kernel"]
    return {"profiled_steps": count, "profiled_step_ms": step_ms, "kernels": len(rows), "kernel_ms": sum(e.get("dur", 0) for e in rows) / 1e3,
            "names": sorted({e["name"] for e in rows})}


def plain(steps, then_profiled=0):
    loop = Loop(SHAPES["gpt2-124M"], 16)
    loop.steps(WARM_UP)
    step_ms, window = loop.steps(steps)
    out = {"steps": steps, "step_ms": step_ms, "window_ns": window}
    return {**out, **profiled(loop, then_profiled)} if then_profiled else out


def inside(steps, compiled=False):
    loop = Loop((50304, 768, 12, 4, 1024), 8, "reduce-overhead") if compiled else Loop(SHAPES["gpt2-124M"], 8)
    loop.steps(WARM_UP)
    half = max(steps // 2, 1)
    _, before = loop.steps(half)
    books = profiled(loop, PROFILED)
    loop.steps(2)
    _, after = loop.steps(half)
    return {**books, "before_ns": before, "before_steps": half, "after_ns": after, "after_steps": half}


class Turns:
    """The order of COUNT programs in a folder: the file `turn` has the number of the block whose turn it is. A program that fails leaves the
    file `failed`, and no other one waits any longer."""

    def __init__(self, folder, index):
        self.turn, self.failed, self.own = (os.path.join(folder, name) for name in ("turn", "failed", f"turn.{index}"))

    def give(self, block):
        with open(self.own, "w", encoding="ascii") as f:
            f.write(str(block))
        os.replace(self.own, self.turn)

    def wait(self, block):
        while True:
            if os.path.exists(self.failed):
                sys.exit("another program that took turns with this one has failed")
            with contextlib.suppress(FileNotFoundError), open(self.turn, encoding="ascii") as f:
                if int(f.read()) == block:
                    return
            time.sleep(0.001)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            with open(self.failed, "w", encoding="ascii"):
                pass


def turns(steps, folder, index, count, watched, rounds=8):
    """Medians of the blocks in ms, and of the part in which the host launches. In the first round each program only warms up. Two steps of a
    block are not counted. What a block held of the device's memory is given back: together the programs need more than there is."""
    with Turns(folder, index) as order:
        loop, took, host = Loop(SHAPES["gpt2-124M"], 16), [], []
        if index == 0:
            order.give(0)
        for block in range(index, (rounds + 1) * count, count):
            order.wait(block)
            if block < count:
                loop.steps(WARM_UP)
            else:
                with torch.profiler.profile() if watched else contextlib.nullcontext():
                    loop.steps(2)
                    took.append(loop.steps(steps)[0])
                    host.append(statistics.median(loop.host_s[-steps:]) * 1e3)
            if not CPU:
                torch.cuda.empty_cache()
            order.give(block + 1)
    return {"steps": steps, "blocks_ms": took, "host_ms": host}


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return torch.full((256,), float(index % 7)), index % 10


def loader(steps, workers=4):
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    synchronize()  # CUDA is up before the workers fork
    batches = torch.utils.data.DataLoader(Rows(), batch_size=64, num_workers=workers, pin_memory=not CPU,
                                          multiprocessing_context="fork")
    for i, (x, y) in enumerate(batches):
        if i == steps:
            break
        loss = torch.nn.functional.cross_entropy(model(x.to(DEVICE, non_blocking=True)), y.to(DEVICE, non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        synchronize()
    return {"steps": steps, "workers": workers}


def fast(steps, model, batch):
    torch.set_float32_matmul_precision("high")
    loop = Loop(SHAPES[model], batch, "default")
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH if CPU else torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        for _ in range(WARM_UP):
            loop.step(clip=1.0)
        begin = time.perf_counter()
        for _ in range(steps):
            loop.step(clip=1.0, wait=False)
        synchronize()
    return {"steps": steps, "step_ms": (time.perf_counter() - begin) / steps * 1e3}


def nccl(calls):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NCCL_DEBUG_FILE"] = os.path.join(folder, "nccl")
        torch.distributed.init_process_group("gloo" if CPU else "nccl", init_method="file://" + os.path.join(folder, "store"), rank=0,
                                             world_size=1, **({} if CPU else {"device_id": torch.device("cuda:0")}))
        x = torch.ones(1 << 20, device=DEVICE)
        for _ in range(calls):
            torch.distributed.all_reduce(x)
        synchronize()
        torch.distributed.destroy_process_group()
        said = ""
        if os.path.exists(os.environ["NCCL_DEBUG_FILE"]):
            with open(os.environ["NCCL_DEBUG_FILE"], encoding="utf-8", errors="replace") as f:
                said = "\n".join(line.strip() for line in f if "plugin" in line.lower() or "profiler" in line.lower())[:2000]
    return {"calls": calls, "nccl": "" if CPU else ".".join(map(str, torch.cuda.nccl.version())), "said": said}


def main():
    mode, steps = sys.argv[1], int(sys.argv[2])
    modes = {"plain": lambda: plain(steps), "both": lambda: plain(steps, 10), "inside": lambda: inside(steps),
             "compile": lambda: inside(steps, compiled=True), "loader": lambda: loader(steps), "nccl": lambda: nccl(steps),
             "turns": lambda: turns(steps, sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), watched=False),
             "profiled": lambda: turns(steps, sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), watched=True), "fast": lambda: fast(steps, sys.argv[3], int(sys.argv[4]))}
    out = {"mode": mode, "torch": torch.__version__, "gpu": "none" if CPU else torch.cuda.get_device_name()}
    print(json.dumps({**out, **modes[mode]()}))


main()
