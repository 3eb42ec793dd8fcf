# SPDX-License-Identifier: Apache-2.0
"""Training programs as people write them. Each times itself; the last line of stdout is what it measured, as JSON.

usage: programs.py NAME [FOLDER]
"""

import contextlib
import importlib
import json
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)
truth = {}


@contextlib.contextmanager
def timed(what):
    begin = time.perf_counter()
    yield
    truth.setdefault(what, []).append(1e3 * (time.perf_counter() - begin))


def model(width=512):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def batch(rows=256):
    return torch.randn(rows, 64), torch.randint(0, 10, (rows,))


def closure(_):
    """An optimizer that is given a closure: the update is what follows it."""
    net = model(1024)
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)
    returned = [0.0]

    def run():
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(batch()[0]), batch()[1])
        loss.backward()
        returned[0] = time.perf_counter()
        return loss

    for _ in range(30):
        optimizer.step(run)
        truth.setdefault("update", []).append(1e3 * (time.perf_counter() - returned[0]))


def checkpoints(folder):
    """Written every five steps, in three ways."""
    from safetensors.torch import save_file

    net = model(1500)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)
    for i in range(30):
        functional.cross_entropy(net(batch()[0]), batch()[1]).backward()
        if i % 10 == 5:
            path = os.path.join(folder, "torch")
            with open(path, "wb") as file:
                with timed("torch.save"):
                    torch.save([net.state_dict(), optimizer.state_dict()], file)
                file.flush()
                with timed("fsync"):
                    os.fsync(file.fileno())
        if i % 10 == 9:
            with timed("safetensors.save_file"):
                save_file(net.state_dict(), os.path.join(folder, "safe"))
        optimizer.step()
        optimizer.zero_grad()


def seen(_):
    """What surrounds an update, by the names that it has in Python."""
    import nvtx

    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    scripted = torch.jit.script(lambda_loss)
    for _ in range(20):
        x, y = batch()
        optimizer.zero_grad()
        with torch.profiler.record_function("augment"):
            x = x + 0.1
        with nvtx.annotate("by nvtx"):
            out = net(x)
        functional.cross_entropy(out, y).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    truth["scripted"] = scripted(out, y).item() == functional.cross_entropy(out, y).item()


def lambda_loss(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(out, y)


def scaler(how):
    """Every fourth gradient is infinite: the scaler leaves the update out, and the step is one all the same. `rarely`: every eighth one,
    and the scale grows again in between."""
    every, count = (8, 96) if how == "rarely" else (4, 24)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    scaled = torch.amp.GradScaler("cpu", init_scale=4.0) if how != "rarely" else torch.amp.GradScaler("cpu", 2.0**12, growth_interval=7)
    for i in range(count):
        x, y = batch()
        loss = functional.cross_entropy(net(x), y) * (float("inf") if i % every == every - 1 else 1.0)
        scaled.scale(loss).backward()
        scaled.step(optimizer)
        scaled.update()
        optimizer.zero_grad()


def lightning(folder):
    """Lightning calls Optimizer.step with a closure that holds forward and backward."""
    import pytorch_lightning as lit

    class Net(lit.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = model(1024)

        def training_step(self, rows, index):
            return functional.cross_entropy(self.net(rows[0]), rows[1])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), foreach=False)

        def optimizer_step(self, epoch, index, optimizer, optimizer_closure=None):
            returned = [0.0]

            def run():
                result = optimizer_closure()
                returned[0] = time.perf_counter()
                return result

            super().optimizer_step(epoch, index, optimizer, run)
            truth.setdefault("update", []).append(1e3 * (time.perf_counter() - returned[0]))

    data = torch.utils.data.TensorDataset(torch.randn(256 * 30, 64), torch.randint(0, 10, (256 * 30,)))
    quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False, "enable_model_summary": False}
    trainer = lit.Trainer(max_epochs=1, accelerator="cpu", default_root_dir=folder, **quiet)
    trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=256))


def trainer(folder):
    """The Trainer of transformers around a small BERT that is made here."""
    import transformers

    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256}
    net = transformers.BertForMaskedLM(transformers.BertConfig(**shape))
    tokens = torch.randint(0, 256, (20 * 4, 32))
    rows = [{"input_ids": row, "labels": row} for row in tokens]
    how = {"output_dir": folder, "per_device_train_batch_size": 4, "num_train_epochs": 1, "save_steps": 10, "report_to": "none"}
    settings = transformers.TrainingArguments(use_cpu=True, disable_tqdm=True, logging_steps=1000, **how)
    transformers.Trainer(net, settings, train_dataset=rows).train()


def ranks(folder):
    """Two ranks of DistributedDataParallel over gloo. Rank 1 sleeps in Python before each forward pass."""
    import torch.distributed as dist

    rank, begin = int(os.environ["RANK"]), time.perf_counter()
    dist.init_process_group("gloo")
    net = nn.parallel.DistributedDataParallel(model(256))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(30):
        x, y = batch()
        if rank == 1:
            time.sleep(0.06)
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()
    truth["seconds"] = time.perf_counter() - begin
    if rank:
        sys.exit(0)


def accumulates(how):
    """Two ranks accumulate four micro-steps. Blocks of five steps reduce the gradients in each of them, and in the last one only."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    net = nn.parallel.DistributedDataParallel(model(1024))
    other = nn.parallel.DistributedDataParallel(model(64))  # one more model is no micro-step
    optimizer = torch.optim.SGD(list(net.parameters()) + list(other.parameters()), 1e-3)
    for i in range(60):
        begin, last_only = time.perf_counter(), how == "last" or (how == "both" and i // 5 % 2 == 1)
        for k in range(4):
            with net.no_sync() if last_only and k < 3 else contextlib.nullcontext():
                x, y = batch(32)
                functional.cross_entropy(net(x), y).backward()
        functional.cross_entropy(other(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        truth.setdefault("last" if last_only else "each", []).append(1e3 * (time.perf_counter() - begin))
    rank = dist.get_rank()
    dist.destroy_process_group()
    if rank:
        sys.exit(0)


def logs_loss(how):
    """Two ranks that reduce the loss of each step for the log, with a barrier after it, or every twentieth one (`rarely`). `alone` is one
    rank that reduces it ten times: it has no other rank to wait for."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    net = nn.parallel.DistributedDataParallel(model(64))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for i in range(60):
        x, y = batch(64)
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        for _ in range(10 if how == "alone" else how == "each" or i % 20 == 0):
            shown = loss.detach().clone()
            dist.all_reduce(shown)
            dist.barrier()
    rank = dist.get_rank()
    dist.destroy_process_group()
    if rank:
        sys.exit(0)


def debugs(how):
    """Steps under autograd's anomaly detection, or torch.profiler; `both`: blocks with and without anomaly detection."""
    layers = [layer for _ in range(12) for layer in (nn.Linear(64, 64), nn.ReLU())]
    net = nn.Sequential(*layers, nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    with torch.profiler.profile() if how == "profiler" else contextlib.nullcontext():
        for i in range(120):
            on = how == "anomalies" or (how == "both" and i // 20 % 2 == 0)
            torch.autograd.set_detect_anomaly(on)
            with timed("on" if on else "off"):
                x, y = batch(32)
                functional.cross_entropy(net(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()


def replicas(how):
    """Many parameters and buffers in DistributedDataParallel, which looks for unused ones and broadcasts; `how`: neither of both."""
    import torch.distributed as dist
    from torch.nn.parallel import distributed

    dist.init_process_group("gloo")
    layers = [nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU()) for _ in range(60)]
    habits = {"find_unused_parameters": how != "plain", "broadcast_buffers": how != "plain"}
    net = distributed.DistributedDataParallel(nn.Sequential(*layers, nn.Linear(16, 10)), **habits)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(30):
        begin = time.perf_counter()
        functional.cross_entropy(net(torch.randn(32, 16)), torch.randint(0, 10, (32,))).backward()
        optimizer.step()
        optimizer.zero_grad()
        truth.setdefault("step", []).append(1e3 * (time.perf_counter() - begin))
    rank = dist.get_rank()
    dist.destroy_process_group()
    if rank:
        sys.exit(0)


def compiles(_):
    """torch.compile with a print that breaks the graph, and rows that change from step to step."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 10)

        def forward(self, x):
            x = self.first(x)
            torch._dynamo.graph_break()
            return self.second(x)

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    compiled = torch.compile(net, backend="eager", dynamic=False)
    for i in range(40):
        x, y = batch(32 + i // 10)
        functional.cross_entropy(compiled(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


def garbage(folder):
    """A full collection of a large heap in each step; then the same steps with one in ten, to know what that brings."""
    import gc

    heap = [{"index": i} for i in range(60000)]
    net = model(1024)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for i in range(60 if folder else 160):
        begin = time.perf_counter()
        every = 1 if folder or i // 20 % 2 == 0 else 10
        x, y = batch()
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % every == 0:
            with timed("collection"):
                gc.collect()
        truth.setdefault("every %d" % every, []).append(1e3 * (time.perf_counter() - begin))
    assert len(heap) == 60000


def leaks(_):
    """Tensors that are kept for no reason, 3 MiB in each step."""
    net, kept_here, elements = model(256), [], 3 << 18
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(300):
        x, y = batch()
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.01)
        kept_here.append(torch.ones(elements))
    truth["kept"] = 4 * elements


class Recorder:
    """Keeps what it is told, and never forgets."""

    def __init__(self):
        self.history = {}

    def record(self, index, loss):
        self.history[index] = [loss, torch.ones(1 << 18)]


def keeps(how):
    """Memory that grows: in an attribute of an object, or in the graph of a sum that no step ends."""
    net, recorder, total = model(256), Recorder(), torch.zeros(())
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for i in range(300):
        x, y = batch(512)
        loss = functional.cross_entropy(net(x), y)
        loss.backward(retain_graph=how == "graph")
        optimizer.step()
        optimizer.zero_grad()
        if how == "graph":
            total = total + loss
        else:
            recorder.record(i, loss.item())
        time.sleep(0.01)
    truth["total"] = float(total)


def lines(_):
    """Python that computes and Python that waits, neither of them marked."""

    def augment(rows):
        return rows + sum(i * 0.5 for i in range(60000)) * 0

    def waits():
        time.sleep(0.01)

    net = model(256)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(150):
        with timed("step"):
            x, y = batch()
            with timed("augment"):
                x = augment(x)
            with timed("waits"):
                waits()
            functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()


class Pictures(torch.utils.data.Dataset):
    """Two transforms in Python, one of which takes most of the time."""

    def __len__(self):
        return 64 * 60

    def slow_crop(self, row):
        return row + sum(i * 0.5 for i in range(3000)) * 0

    def flip(self, row):
        return row.flip(0)

    def __getitem__(self, index):
        return self.flip(self.slow_crop(torch.full((64,), float(index)))), index % 10


def inline(_):
    transforms(0)


def transforms(workers):
    net = model(256)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for x, y in torch.utils.data.DataLoader(Pictures(), batch_size=64, num_workers=1 if workers is None else workers):
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


class Slow(torch.utils.data.Dataset):
    """Rows that take 50 us each."""

    def __len__(self):
        return 64 * 10

    def __getitem__(self, index):
        time.sleep(0.00005)
        return torch.full((64,), float(index)), index % 10


def threads(_):
    """A model of large layers on one thread."""
    net = model(1500)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(40):
        x, y = batch()
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    truth["threads"] = torch.get_num_threads()


def validates(_):
    """A loop that evaluates every tenth step on a data set of its own, whose rows take longer than the model."""
    net = model(256)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    held = torch.utils.data.DataLoader(Slow(), batch_size=64)
    for i in range(60):
        x, y = batch()
        with timed("step"):
            functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        if i % 10 == 5:
            net.eval()
            with timed("evaluation"), torch.no_grad():
                for x, y in held:
                    functional.cross_entropy(net(x), y)
            net.train()


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64 * 8

    def __getitem__(self, index):
        return torch.full((64,), float(index)), index % 10


def epochs(how):
    """Short epochs, in each of which the loader starts its workers again, or keeps them (`keep`)."""
    net = model(256)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=64, num_workers=2, persistent_workers=how == "keep")
    for _ in range(12):
        begin = time.perf_counter()
        batches = iter(loader)
        x, y = next(batches)
        truth.setdefault("first batch", []).append(1e3 * (time.perf_counter() - begin))
        while x is not None:
            functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            ended = time.perf_counter()
            x, y = next(batches, (None, None))
        truth.setdefault("end", []).append(1e3 * (time.perf_counter() - ended))
        truth.setdefault("epoch", []).append(1e3 * (time.perf_counter() - begin))


def augments(_):
    """A loop of Python in each step, between the ranges of PyTorch, that the program marks."""
    net = model(256)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(60):
        x, y = batch()
        with torch.profiler.record_function("mix rows"), timed("mix rows"):
            total = sum(i * i for i in range(60000))
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert total


def devices():
    """The module beside this one: a notebook that runs this file does not look here."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    return importlib.import_module("devices")


def values(device):
    """What a training loop reads of its tensors, on a device that computes them when it is asked to (`cpu`: nothing waits)."""
    if device != "cpu":
        devices().substitute_device()
    net = model(256)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for i in range(40):
        loss = functional.cross_entropy(net(batch()[0]), batch()[1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        held = loss.detach().to(device)
        with timed("item"):
            value = held.item()
        with timed("cpu"):
            back = held.cpu()
        with timed("float"):
            assert float(held) == value and back.item() == value == loss.item()
    truth["own"] = torch.Tensor.item is torch._C.TensorBase.item


def small(rows):
    """Many small layers: with few rows PyTorch is busy with calling operators."""
    layers = [layer for _ in range(24) for layer in (nn.Linear(32, 32), nn.ReLU())]
    trained(nn.Sequential(nn.Linear(64, 32), *layers, nn.Linear(32, 10)), rows)


class Repeated(torch.autograd.Function):
    """One node of autograd's graph, with many operators in the backward pass."""

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        for _ in range(400):
            gradient = gradient.neg()
        return gradient


class Repeat(nn.Module):
    def forward(self, x):
        return Repeated.apply(x)


def repeats(rows):
    """Few nodes with many operators each: what a node takes is little beside them."""
    trained(nn.Sequential(nn.Linear(64, 10), *(Repeat() for _ in range(8))), rows)


def trained(net, rows):
    """A hundred steps, with the CPU time of each on this thread."""
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(100):
        begin = time.thread_time()
        x, y = batch(int(rows))
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        truth.setdefault("cpu", []).append(1e3 * (time.thread_time() - begin))


class Counted(torch.Tensor):
    """A class of tensors that sees each call of a function on it."""

    seen = []

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        cls.seen.append(getattr(function, "__name__", str(function)))
        return super().__torch_function__(function, types, arguments, keywords or {})


def unchanged(_):
    """What PyTorch does with the methods that are recorded: compiled, scripted, traced, exported, on classes of the program."""
    devices().substitute_device()
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    truth["replaced"] = torch.Tensor.item is not torch._C.TensorBase.item
    dynamo = importlib.import_module("torch._dynamo")

    @torch.compile(backend="eager")
    def compiled(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        return y * y.sum().item() + float(y.mean())

    said = [str(compiled(torch.ones(3))), str(compiled(-torch.ones(3)))]
    counters = dynamo.utils.counters
    said += [str({key[:60]: value for key, value in counters["graph_break"].items()}), str(counters["stats"]["unique_graphs"])]
    said.append(str(torch.jit.trace(lambda x: x * x.sum().cpu(), torch.ones(2))(torch.ones(3))))
    own = torch.ones(2).as_subclass(Counted)
    said.append(str([own.sum().item(), "%s" % own, bool(own.sum()), own.to("cpu").cpu().numpy().tolist(), own.tolist()]))
    said.append(str(Counted.seen))
    said.append(str(torch.func.vmap(lambda x: x.to("cpu") * 2)(torch.ones(2, 2))))
    said.append(str(len(list(torch.export.export(net, (torch.ones(2, 4),)).graph.nodes))))
    said.append(str([range(torch.tensor(3))[-1], [1, 2, 3][torch.tensor(1)], f"{torch.tensor(2.0):.1f}"]))
    truth["said"] = said


def sharded(how):
    """Two ranks of FSDP2 over gloo, which give parameters back after forward, keep them, or do so in turn (`both`)."""
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2,))
    net = nn.Sequential(nn.Linear(64, 1024), *(nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()) for _ in range(4)), nn.Linear(1024, 10))
    for block in net if how != "first version" else ():
        fully_shard(block, mesh=mesh, reshard_after_forward=how != "keep")
    if how == "first version":
        net = torch.distributed.fsdp.FullyShardedDataParallel(net, device_id=torch.device("cpu"))
    else:
        fully_shard(net, mesh=mesh)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for i in range(40):
        keeps = how == "keep" or (how == "both" and i % 2 == 1)
        if how == "both":
            for block in net:
                block.set_reshard_after_forward(not keeps)
        begin = time.perf_counter()
        x, y = batch(32)
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        truth.setdefault("keep" if keeps else "give back", []).append(1e3 * (time.perf_counter() - begin))
    rank = dist.get_rank()
    dist.destroy_process_group()
    if rank:
        sys.exit(0)


def buckets(megabytes):
    """Two ranks of DistributedDataParallel with buckets of so many MiB; what it measured itself, of its first passes."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    layers = [layer for _ in range(6) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    net = nn.Sequential(nn.Linear(64, 1024), *layers, nn.Linear(1024, 10))
    net = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=float(megabytes))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for i in range(30):
        x, y = batch(64)
        out = net(x)
        data = net._get_ddp_logging_data()
        if i == 11:
            truth["communication_ms"] = data["backward_comm_time"] / 1e6
            truth["sizes"] = [int(size) for size in data["rebuilt_bucket_sizes"].split(",")]
        functional.cross_entropy(out, y).backward()
        optimizer.step()
        optimizer.zero_grad()
    rank = dist.get_rank()
    dist.destroy_process_group()
    if rank:
        sys.exit(0)


def accelerated(folder):
    """A loop of accelerate, which saves its state."""
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    net = model(256)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64 * 20, 64), torch.randint(0, 10, (64 * 20,))), 64)
    net, optimizer, data = accelerator.prepare(net, optimizer, data)
    for i, (x, y) in enumerate(data):
        accelerator.backward(functional.cross_entropy(net(x), y))
        optimizer.step()
        optimizer.zero_grad()
        if i % 10 == 9:
            with timed("save"):
                accelerator.save_state(os.path.join(folder, "state"))


def evaluates(folder):
    """Lightning with a validation loop, a callback and checkpoints; of the package that is named, which are two."""
    lit = importlib.import_module(sys.argv[3] if len(sys.argv) > 3 else "pytorch_lightning")

    class Net(lit.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = model(256)

        def training_step(self, rows, index):
            return functional.cross_entropy(self.net(rows[0]), rows[1])

        def validation_step(self, rows, index):
            self.log("loss", functional.cross_entropy(self.net(rows[0]), rows[1]))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-3)

    class Slow(lit.Callback):
        def on_train_batch_end(self, *arguments):
            with timed("callback"):
                time.sleep(0.003)

        def on_validation_start(self, *arguments):
            truth["begun"] = time.perf_counter()

        def on_validation_end(self, *arguments):
            truth.setdefault("validation", []).append(1e3 * (time.perf_counter() - truth["begun"]))

    rows = torch.utils.data.TensorDataset(torch.randn(64 * 20, 64), torch.randint(0, 10, (64 * 20,)))
    loader = torch.utils.data.DataLoader(rows, batch_size=64)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    lit.Trainer(max_epochs=2, accelerator="cpu", default_root_dir=folder, callbacks=[Slow()], **quiet).fit(Net(), loader, loader)


def engine(folder):
    """DeepSpeed on the CPU, which accumulates two micro-steps, and one checkpoint."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import deepspeed

    deepspeed.init_distributed("gloo")
    net = model(256)
    settings = {"train_micro_batch_size_per_gpu": 32, "gradient_accumulation_steps": 2, "steps_per_print": 1000}
    deep = deepspeed.initialize(model=net, optimizer=torch.optim.SGD(net.parameters(), 1e-3), config=settings)[0]
    for _ in range(40):
        x, y = batch(32)
        deep.backward(functional.cross_entropy(deep(x), y))
        deep.step()
    with timed("save"):
        deep.save_checkpoint(folder)
    rank = torch.distributed.get_rank()
    torch.distributed.destroy_process_group()
    if rank:
        sys.exit(0)


class Photos(torch.utils.data.Dataset):
    transform = None

    def __len__(self):
        return 8 * 20

    def __getitem__(self, index):
        from PIL import Image

        return self.transform(Image.new("RGB", (80, 80), (index, 0, 0))), index % 10


def vision(folder):
    """timm with its loader, its transforms and its checkpoints."""
    import timm
    import timm.data
    import timm.utils

    net = timm.create_model("mobilenetv3_small_050", num_classes=10)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    loader = timm.data.create_loader(Photos(), (3, 64, 64), 8, is_training=True, use_prefetcher=False, num_workers=0)
    saver = timm.utils.CheckpointSaver(net, optimizer, checkpoint_dir=folder, recovery_dir=folder)
    for i, (x, y) in enumerate(loader):
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 10 == 9:
            with timed("save"):
                saver.save_checkpoint(i, metric=float(i))


def get_batch(split):
    with timed("get_batch"):
        return torch.randn(128, 64), torch.randint(0, 10, (128,)) if split == "train" else torch.zeros(128, dtype=torch.long)


@torch.no_grad()
def estimate_loss():
    net = truth_of_script["net"]
    net.eval()
    with timed("estimate_loss"):
        for _ in range(10):
            net(get_batch("val")[0])
    net.train()


truth_of_script = {}


def script(_):
    """A loop as in nanoGPT: two functions of the script, and an evaluation now and then."""
    net = truth_of_script["net"] = model(256)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    for i in range(40):
        if i % 10 == 0:
            estimate_loss()
        x, y = get_batch("train")
        functional.cross_entropy(net(x), y).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else None)
print(json.dumps(truth))
