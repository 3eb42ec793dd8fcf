# SPDX-License-Identifier: Apache-2.0
"""Training loops with more than one model, one optimizer, one stage or one file, as people write them. Each says what it did: the last line
of stdout, as JSON.

usage: loops.py NAME [HOW]
"""

import copy
import functools
import json
import os
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)
truth = {}


def model(width=512, inputs=64):
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def batch(rows=128):
    return torch.randn(rows, 64), torch.randint(0, 10, (rows,))


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Held(torch.utils.data.Dataset):
    """Rows that take longer to read than the model needs for them."""

    def __len__(self):
        return 64 * 8

    def __getitem__(self, index):
        time.sleep(0.0001)
        return torch.full((64,), float(index)), index % 10


def validates(how):
    """The loss is a module, as in most programs; every tenth step is followed by an evaluation, `forgets`: without torch.no_grad()."""
    net, criterion = model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(net.parameters())
    held = torch.utils.data.DataLoader(Held(), batch_size=64)
    begun = time.perf_counter()
    for i in range(1, 61):
        x, y = batch()
        update(optimizer, criterion(net(x), y))
        if i % 10:
            continue
        begin, right = time.perf_counter(), 0
        net.eval()
        with torch.set_grad_enabled(how == "forgets"):
            for x, y in held:
                out = net(x)
                criterion(out, y)
                right += (out.argmax(1) == y).sum().item()
        net.train()
        truth.setdefault("evaluation", []).append(1e3 * (time.perf_counter() - begin))
    truth["seconds"] = time.perf_counter() - begun


def stays_in_evaluation(_):
    """A program that forgets net.train() after its first evaluation: what follows is training all the same."""
    net = model()
    optimizer = torch.optim.Adam(net.parameters())
    loader = torch.utils.data.DataLoader(Held(), batch_size=16)
    for i in range(3):
        for x, y in loader:
            update(optimizer, functional.cross_entropy(net(x), y))
        net.eval()


def distils(_):
    """A teacher in evaluation mode, without gradients, in each step."""
    teacher, student = model(1024).eval(), model()
    optimizer = torch.optim.Adam(student.parameters())
    for _ in range(60):
        x, y = batch()
        with torch.no_grad():
            wanted = teacher(x).softmax(1)
        out = student(x)
        update(optimizer, functional.cross_entropy(out, y) + functional.kl_div(out.log_softmax(1), wanted, reduction="batchmean"))


def averages(_):
    """The mean of the weights so far is what is evaluated, while the model stays in training mode."""
    net = model()
    mean = copy.deepcopy(net).eval()
    optimizer = torch.optim.Adam(net.parameters())
    for i in range(1, 61):
        x, y = batch()
        update(optimizer, functional.cross_entropy(net(x), y))
        if i % 10 == 0:
            begin = time.perf_counter()
            with torch.no_grad():
                for _ in range(20):
                    functional.cross_entropy(mean(x), y)
            truth.setdefault("evaluation", []).append(1e3 * (time.perf_counter() - begin))


def adversaries(_):
    """A GAN: the discriminator has two backward passes before its update, of rows of the batch and of the generator."""
    maker, judge, criterion = nn.Linear(16, 64), nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)), nn.BCEWithLogitsLoss()
    of_judge, of_maker = (torch.optim.Adam(net.parameters(), 2e-4) for net in (judge, maker))
    right, wrong = torch.ones(32, 1), torch.zeros(32, 1)
    for _ in range(60):
        judge.zero_grad()
        criterion(judge(torch.randn(32, 64)), right).backward()
        made = maker(torch.randn(32, 16))
        criterion(judge(made.detach()), wrong).backward()
        of_judge.step()
        update(of_maker, criterion(judge(made), right))


def stages(_):
    """A head is trained alone before all is; each optimizer stays, and its scheduler with it."""
    body, head, kept = model(), nn.Linear(10, 10), []
    for parameters, count in ((head.parameters(), 40), (list(body.parameters()) + list(head.parameters()), 160)):
        optimizer = torch.optim.Adam(parameters)
        kept.append(torch.optim.lr_scheduler.StepLR(optimizer, 10))
        for _ in range(count):
            x, y = batch()
            update(optimizer, functional.cross_entropy(head(body(x)), y))
            kept[-1].step()


def by_hand(_):
    """Parameters that the program updates itself, without an optimizer."""
    net = model(128)
    for _ in range(160):
        x, y = batch()
        net.zero_grad()
        functional.cross_entropy(net(x), y).backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 1e-3 * parameter.grad


def saves(_):
    """A checkpoint of three files every tenth step."""
    net = model(1200)
    optimizer = torch.optim.Adam(net.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(1, 61):
            x, y = batch(32)
            update(optimizer, functional.cross_entropy(net(x), y))
            if i % 10 == 0:
                for name, part in (("model", net), ("optimizer", optimizer), ("scheduler", scheduler)):
                    torch.save(part.state_dict(), os.path.join(folder, name))


def penalizes(_):
    """The gradient of what the model says is a part of its loss (WGAN-GP, equations)."""
    net = model(1024)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(40):
        x = torch.randn(64, 64, requires_grad=True)
        out = net(x).sum()
        begin = time.perf_counter()
        (slope,) = torch.autograd.grad(out, x, create_graph=True)
        truth.setdefault("gradient", []).append(1e3 * (time.perf_counter() - begin))
        update(optimizer, out + ((slope.norm(dim=1) - 1) ** 2).mean())


def written_in_the_loop(_):
    """Python that computes in the function that holds the loop of the steps."""
    net = model(256)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(150):
        begin = time.perf_counter()
        counts = [0] * 64
        for i in range(60000):  # of Python
            counts[i % 64] += i
        truth.setdefault("loop", []).append(1e3 * (time.perf_counter() - begin))
        x, y = batch()
        x = x + counts[0] * 0
        update(optimizer, functional.cross_entropy(net(x), y))
        truth.setdefault("step", []).append(1e3 * (time.perf_counter() - begin))


class Meter:
    values = []

    def update(self, value):
        self.values.append(value)  # of a class


def tracker():
    seen = []

    def track(value):
        seen.append(value)  # of a closure

    return track


def remember(value, held=[]):
    held.append(value)  # of an argument


@functools.lru_cache(maxsize=None)  # of results
def features(index):
    return torch.ones(1 << 18)


def kept_elsewhere(value):
    """Where no object of Python has it."""
    import ctypes

    memory = ctypes.CDLL(None)
    memory.malloc.restype = ctypes.c_void_p
    ctypes.memset(memory.malloc(ctypes.c_size_t(1 << 20)), 1, 1 << 20)


def keeps(how):
    """1 MiB is kept in each step."""
    net, meter, track, history = model(128), Meter(), tracker(), {"loss": [], "out": []}
    joined = torch.zeros(0)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for i in range(200):
        x, y = batch(32)
        loss = functional.cross_entropy(net(x), y)
        update(optimizer, loss)
        history["loss"].append(loss.item())
        kept = torch.ones(1 << 18)
        if how == "container":
            history["out"].append(kept)  # of a container
        elif how == "class":
            meter.update(kept)
        elif how == "closure":
            track(kept)
        elif how == "argument":
            remember(kept)
        elif how == "results":
            features(i)
        elif how == "array":
            joined = torch.cat([joined, kept[: 1 << 16]])  # of an array
        else:
            kept_elsewhere(kept)
        time.sleep(0.01)


class Counted(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts the operators that are called."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.count += 1
        return function(*arguments, **(keywords or {}))


def encodes(_):
    """Two models that are called one after the other, and a loss that is a module."""
    encoder, decoder, criterion = model(256), model(256, 10), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(list(encoder.parameters()) + list(decoder.parameters()))
    x, y = batch(16)
    with Counted() as counted:
        decoder(encoder(x))
    truth["operators"] = counted.count
    for _ in range(40):
        x, y = batch(16)
        update(optimizer, criterion(decoder(encoder(x)), y))


def multiplies(_):
    """A model of matrices, without a module; the loss is one."""
    rows, inside = 16, 256
    weights = [nn.Parameter(torch.randn(*shape) / 16) for shape in ((64, inside), (inside, 10))]
    optimizer, criterion = torch.optim.SGD(weights, 1e-3), nn.CrossEntropyLoss()
    # of the second product both gradients are computed, of the first one only that of its weight
    truth["flops"] = 4 * rows * inside * 10 + 2 * rows * 64 * inside
    for _ in range(40):
        x, y = batch(rows)
        update(optimizer, criterion((x @ weights[0]).relu() @ weights[1], y))


def pauses(_):
    """A teacher helps in each step. Says in which steps PyTorch has hooks at all modules when the teacher is called."""
    from torch.nn.modules import module

    teacher, student = model(64).eval(), model(64)
    optimizer, hooked = torch.optim.SGD(student.parameters(), 1e-3), []
    for _ in range(200):
        x, _ = batch(16)
        hooked.append(len(module._global_forward_pre_hooks))
        with torch.no_grad():
            goal = teacher(x)
        update(optimizer, functional.mse_loss(student(x), goal))
    truth["hooked"] = hooked


def child(rank, ranks):
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29641")
    if rank == 0:
        time.sleep(0.5)  # so that the other process begins first
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    net = nn.parallel.DistributedDataParallel(model(256))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(40):
        x, y = batch()
        if rank == 1:
            time.sleep(0.04)
        update(optimizer, functional.cross_entropy(net(x), y))
    dist.destroy_process_group()


def spawns(_):
    """Ranks that the program starts itself, with numbers that no variable says."""
    torch.multiprocessing.spawn(child, args=(2,), nprocs=2)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else None)
    print(json.dumps(truth))
