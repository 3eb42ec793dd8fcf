# SPDX-License-Identifier: Apache-2.0
"""One training program of a seeded draw (draws.py), with its planted cause or without it.

usage: draw.py PARAMETERS planted|fixed FOLDER     (PARAMETERS: JSON that draws.py makes)

The last line of stdout is JSON: steps after the warm-up, and their seconds with all that runs between them.
"""

import contextlib
import gc
import json
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional

draw, planted, folder = json.loads(sys.argv[1]), sys.argv[2] == "planted", sys.argv[3]
cause = draw["cause"] if planted else None
torch.manual_seed(draw["seed"])
torch.backends.mha.set_fastpath_enabled(False)  # hooks switch it off, and evaluation would be another program
# as many as there are cores: fewer are a cause of their own
torch.set_num_threads(1 if cause == "threads" else max(1, len(os.sched_getaffinity(0)) // draw["ranks"]))
ROWS, WIDTH, STEPS, WARM = draw["rows"], draw["width"], draw["steps"], 10
rank = int(os.environ.get("RANK", "0"))
milliseconds = draw["milliseconds"]
traced = contextlib.nullcontext
if os.environ.get("DRAW_TRACEML"):  # beside.py: what TraceML asks a program for
    import traceml_ai as traceml

    traceml.init()
    traced = traceml.trace_step


def spin(ms):
    """Python that computes for about so long, whatever else runs: counted in its own CPU time."""
    end, n = time.thread_time() + ms / 1e3, 0
    while time.thread_time() < end:
        n += 1
    return n


class Rows(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count, self.kept, self.mapped = count, {}, None
        if draw["data"] == "mapped":  # 64 MiB at most, which no process allocates
            path, size = os.path.join(folder, "rows"), count * draw["inputs"]
            with open(path, "wb") as file:
                file.truncate(4 * size)
            self.mapped = torch.from_file(path, shared=True, size=size).view(count, draw["inputs"])

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if draw["cause"] == "slow_loader":
            time.sleep(milliseconds / 1e3 / ROWS)
        if self.mapped is not None:
            return self.mapped[index], index % 10
        if draw["data"] == "cached":  # a cache that is full after a third of the steps
            index %= self.count // 3
            if index not in self.kept:
                self.kept[index] = torch.full((draw["inputs"],), float(index % 7))
            return self.kept[index], index % 10
        return torch.full((draw["inputs"],), float(index % 7)), index % 10


def mlp():
    hidden = [layer for _ in range(draw["layers"]) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    norm = [nn.BatchNorm1d(WIDTH)] * 1 if draw["cause"] == "ddp_buffers" else []
    return nn.Sequential(nn.Linear(draw["inputs"], WIDTH), *norm, *hidden, nn.Linear(WIDTH, 10))


def attention():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(draw["inputs"], WIDTH)
            layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True)
            self.blocks = nn.TransformerEncoder(layer, draw["layers"], enable_nested_tensor=False)
            self.head = nn.Linear(WIDTH, 10)

        def forward(self, x):
            return self.head(self.blocks(self.embed(x)[:, None, :].expand(-1, 8, -1)).mean(1))

    return Net()


def convolution():
    side = int(draw["inputs"] ** 0.5)
    layers = [nn.Unflatten(1, (1, side, side)), nn.Conv2d(1, WIDTH // 8, 3, padding=1), nn.ReLU()]
    layers += [nn.Conv2d(WIDTH // 8, WIDTH // 8, 3, padding=1), nn.ReLU()] * draw["layers"]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(2 * WIDTH, 10))


def batches():
    if draw["cause"] == "slow_loader" or draw["data"] in ("mapped", "cached", "workers"):
        workers = 2 if draw["data"] == "workers" or (draw["cause"] == "slow_loader" and not planted) else 0
        yield from torch.utils.data.DataLoader(Rows(ROWS * (STEPS + WARM)), batch_size=ROWS, num_workers=workers)
        return
    for i in range(STEPS + WARM):
        rows = ROWS
        if cause == "recompile":
            rows += i // 6
        if draw["data"] == "lengths":
            rows -= torch.randint(0, ROWS // 2, ()).item()
        if cause == "uneven" and rank == 1:
            rows *= 3
        yield torch.randn(rows, draw["inputs"]), torch.randint(0, 10, (rows,))


def main():
    net = {"mlp": mlp, "attention": attention, "convolution": convolution}[draw["model"]]()
    if draw["ranks"] > 1:
        import torch.distributed as dist

        dist.init_process_group("gloo")
        buffers = cause == "ddp_buffers"
        net = nn.parallel.DistributedDataParallel(net, broadcast_buffers=buffers)
    run = net
    if draw["cause"] == "recompile":
        run = torch.compile(net, backend="eager", dynamic=False)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-4)
    heap = [{"index": i} for i in range(draw["heap"])] if draw["cause"] == "garbage" else []
    kept, begun, held = [], None, torch.randn(ROWS, draw["inputs"])
    for i, (x, y) in enumerate(batches()):
        if i == WARM:
            begun = time.perf_counter()
        with traced(net):
            if cause == "host_python":
                spin(milliseconds)
            if cause == "host_sleep" or (cause == "straggler" and rank == 1):
                time.sleep(milliseconds / 1e3)
            micro = 4 if draw["cause"] == "ddp_microstep" else 1
            for k in range(micro):
                quiet = micro > 1 and not planted and k < micro - 1
                with net.no_sync() if quiet else contextlib.nullcontext():
                    loss = functional.cross_entropy(run(x), y)
                    loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if cause == "garbage":
                gc.collect()
            if cause == "leak":
                kept.append(torch.ones(draw["leak"]))
            if draw["data"] == "losses":
                kept.append(loss.item())
            if cause == "checkpoint" and i % draw["every"] == 0:
                torch.save([net.state_dict(), optimizer.state_dict()], os.path.join(folder, "saved"))
            if cause == "evaluation" and i % draw["every"] == 0:
                net.eval()
                with torch.no_grad():
                    for _ in range(draw["evaluations"]):
                        net(held)
                net.train()
    seconds = time.perf_counter() - begun
    assert len(heap) == (draw["heap"] if draw["cause"] == "garbage" else 0)
    if draw["ranks"] > 1:
        dist.destroy_process_group()
        if rank:
            sys.exit(0)
    print(json.dumps({"steps": STEPS, "seconds": seconds}))


main()
