# SPDX-License-Identifier: Apache-2.0
"""Training loops whose own ranges and threads cross the steps. Each times its steps; the last line of stdout is JSON.

usage: crossing.py NAME [HOW]
"""

import json
import os
import queue
import sys
import threading
import time
import weakref

import torch
from loops import batch, model
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)
STEPS = 60
truth = {"step": []}


def update(net, optimizer, x, y):
    optimizer.zero_grad()
    functional.cross_entropy(net(x), y).backward()
    optimizer.step()


def train(batches, around=None):
    """As many steps as there are batches; around(i): a context of the whole step."""
    net = model()
    optimizer = torch.optim.Adam(net.parameters())
    for i, (x, y) in enumerate(batches):
        begin = time.perf_counter()
        if around is None:
            update(net, optimizer, x, y)
        else:
            with around(i):
                update(net, optimizer, x, y)
        truth["step"].append(1e3 * (time.perf_counter() - begin))


def marks(how):
    """A range of the program around all of a step, with one name, or with a new one for each step."""
    name = "train step" if how == "one" else "train step %d"
    train((batch() for _ in range(STEPS)), lambda i: torch.profiler.record_function(name % i if "%" in name else name))


def epochs(_):
    """A range around each epoch, which begins and ends in the middle of a step."""
    net = model()
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(3):
        begun = time.perf_counter()
        with torch.profiler.record_function("epoch"):
            for _ in range(STEPS // 3):
                begin = time.perf_counter()
                x, y = batch()
                update(net, optimizer, x, y)
                truth["step"].append(1e3 * (time.perf_counter() - begin))
        truth.setdefault("epoch", []).append(1e3 * (time.perf_counter() - begun))


def profiles(_):
    """PyTorch's own profiler, with a schedule: between two of its steps a range of its own is open."""
    schedule = torch.profiler.schedule(wait=2, warmup=1, active=2, repeat=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule) as profiler:

        def batches():
            for _ in range(STEPS):
                yield batch()
                profiler.step()

        train(batches())


def prefetches(_):
    """A thread of the program reads the batches ahead from a loader."""
    rows = torch.utils.data.TensorDataset(torch.randn(STEPS * 32, 64), torch.randint(0, 10, (STEPS * 32,)))
    ahead = queue.Queue(2)

    def read():
        for x in torch.utils.data.DataLoader(rows, batch_size=32):
            ahead.put(x)
        ahead.put(None)

    thread = threading.Thread(target=read)
    thread.start()
    train(iter(ahead.get, None))
    thread.join()


def in_a_thread(_):
    """The model is tried on the main thread and trained on another one."""
    model()(batch()[0])
    thread = threading.Thread(target=train, args=([batch() for _ in range(STEPS)],))
    thread.start()
    thread.join()


def in_backward(_):
    """Each parameter has an optimizer, which updates it in the backward pass as soon as its gradient is there."""
    net = model()
    for parameter in net.parameters():
        own = torch.optim.SGD([parameter], 1e-3)

        def updated(_, own=own):
            own.step()
            own.zero_grad()

        parameter.register_post_accumulate_grad_hook(updated)
    for _ in range(STEPS):
        begin = time.perf_counter()
        x, y = batch()
        functional.cross_entropy(net(x), y).backward()
        truth["step"].append(1e3 * (time.perf_counter() - begin))


def lengths(_):
    """Each batch has another number of rows."""
    train(batch(64 + i) for i in range(STEPS))


def writes(folder):
    """Checkpoints of other functions than torch.save."""
    import numpy
    import safetensors.numpy
    import safetensors.torch
    import torch.distributed.checkpoint as sharded

    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    ways = {
        "safetensors.save_model": lambda path: safetensors.torch.save_model(net, path),
        "safetensors.save_file": lambda path: safetensors.numpy.save_file({"rows": numpy.zeros((512, 512))}, path),
        "checkpoint.save": lambda path: sharded.save(net.state_dict(), checkpoint_id=path, no_dist=True),
    }
    for i in range(STEPS):
        update(net, optimizer, *batch())
        if i % 10 == 9:
            for name, write in ways.items():
                begin = time.perf_counter()
                write(os.path.join(folder, "%s-%d" % (name, i)))
                truth.setdefault(name, []).append(1e3 * (time.perf_counter() - begin))


def meets_many_shapes(_):
    """A compiled model that gets more shapes than PyTorch compiles one function for."""
    net = model(64)
    compiled, optimizer = torch.compile(net, backend="eager", dynamic=False), torch.optim.SGD(net.parameters(), 1e-3)
    for i in range(STEPS):
        begin = time.perf_counter()
        update(compiled, optimizer, *batch(16 + i // 3))
        truth["step"].append(1e3 * (time.perf_counter() - begin))


def compiles_for_the_next_run(how):
    """A compiled model whose code the cache on disk keeps although AOTAutograd refuses its graph (kept), whose graphs Inductor refuses
    (refused), or with the cache off (off)."""

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return 2 * x

        @staticmethod
        def backward(context, gradient):
            return 2 * gradient

    from torch._dynamo.utils import counters
    from torch._inductor import config

    begin = time.perf_counter()
    torch.compile(torch.nn.Identity(), backend="eager")(torch.ones(1))
    truth["first"] = 1e3 * (time.perf_counter() - begin)
    torch._dynamo.reset()  # forgets all callbacks
    config.force_disable_caches = how == "off"
    if how == "refused":
        config.post_grad_custom_post_pass = lambda graph: None
    net = model(64)
    compiled = torch.compile((lambda x: Twice.apply(net(x))) if how == "kept" else net)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(STEPS):
        begin = time.perf_counter()
        update(compiled, optimizer, *batch())
        truth["step"].append(1e3 * (time.perf_counter() - begin))
    truth["counters"] = {kind: dict(counters[kind]) for kind in ("aot_autograd", "inductor")}


def reduces_beside(_):
    """Gradients are reduced without waiting, and waited for before the update."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(STEPS):
        begin = time.perf_counter()
        x, y = batch()
        optimizer.zero_grad()
        functional.cross_entropy(net(x), y).backward()
        for work in [dist.all_reduce(p.grad, async_op=True) for p in net.parameters()]:  # beside each other
            work.wait()
        optimizer.step()
        truth["step"].append(1e3 * (time.perf_counter() - begin))
    dist.destroy_process_group()


def derives(_):
    """The update of the program's class calls that of the class it is derived from, which has an object of its own."""

    class Counts(torch.optim.SGD):
        def step(self, closure=None):
            self.updates = getattr(self, "updates", 0) + 1
            return super().step(closure)

    net, other = model(), model()
    optimizer, _ = Counts(net.parameters(), 1e-3), torch.optim.SGD(other.parameters(), 1e-3)
    for _ in range(STEPS):
        begin = time.perf_counter()
        update(net, optimizer, *batch())
        truth["step"].append(1e3 * (time.perf_counter() - begin))


def scales(how):
    """Every fourth gradient is infinite. `fused`: the optimizer itself leaves the update out; `marked`: the program says when a step ends."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3, fused=how == "fused")
    scaled = torch.amp.GradScaler("cpu", init_scale=4.0)
    for i in range(STEPS):
        begin = time.perf_counter()
        x, y = batch()
        scaled.scale(functional.cross_entropy(net(x), y) * (float("inf") if i % 4 == 3 else 1.0)).backward()
        scaled.unscale_(optimizer)
        norm = torch.nn.utils.get_total_norm([p.grad for p in net.parameters()])
        torch.nn.utils.clip_grads_with_norm_(net.parameters(), 1.0, norm)
        scaled.step(optimizer)
        scaled.update()
        optimizer.zero_grad()
        if how == "marked":
            sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "profiler", "python"))
            import tacho

            tacho.step()
        truth["step"].append(1e3 * (time.perf_counter() - begin))


def tries_again(_):
    """Every tenth update raises, and the program goes on."""

    class Fails(torch.optim.SGD):
        def step(self, closure=None):
            calls.append(1)
            if len(calls) % 10 == 5:
                raise RuntimeError("out of memory")
            return super().step(closure)

    class Memory:
        pass

    def attempt():
        held = Memory()  # must go with this call
        references.append(weakref.ref(held))
        update(net, optimizer, *batch())

    calls, references, net = [], [], model()
    optimizer = Fails(net.parameters(), 1e-3)
    for _ in range(STEPS):
        begin = time.perf_counter()
        failed = False
        try:
            attempt()
        except RuntimeError:
            failed = True  # the exception itself keeps the frames up to here
        if failed:
            truth["kept"] = truth.get("kept", 0) + (references[-1]() is not None)
            continue
        truth["step"].append(1e3 * (time.perf_counter() - begin))


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else None)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(truth))
