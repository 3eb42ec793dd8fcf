# SPDX-License-Identifier: Apache-2.0
"""A PyTorch loop for tests/gpu/checks.py. Prints one line of JSON with its own books.

    torch_loop.py plain|profiler|inside STEPS

plain: no profiler of its own. profiler: torch.profiler over all steps, its kernels counted. inside: torch.profiler over some of
the steps, as users do, while another profiler may watch.
"""
import json
import statistics
import sys
import time

try:
    import torch
except ImportError:
    print(json.dumps({"missing": "PyTorch"}))
    sys.exit(0)
if not torch.cuda.is_available():
    print(json.dumps({"missing": "a GPU that PyTorch can use"}))
    sys.exit(0)


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
    def __init__(self, vocabulary=50304, width=768, heads=12, layers=12, context=1024):
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


def main():
    mode, steps = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(1)
    model = GPT2().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, 50304, (8, 1025), device="cuda")
    times, profiler = [], None
    first, last = (0, steps) if mode == "profiler" else (steps // 3, steps // 3 + 4)
    torch.cuda.synchronize()
    window = 0
    for step in range(-5, steps):
        if step == 0:
            window = time.monotonic_ns()  # everything before has been waited for
        if step == first and mode != "plain":
            profiler = torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA])
            profiler.__enter__()
        if step == last and profiler and mode == "inside":
            profiler.__exit__(None, None, None)
        begin = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(ids[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if step >= 0:
            times.append(time.perf_counter() - begin)
    out = {"mode": mode, "steps": steps, "step_ms": statistics.median(times) * 1e3, "torch": torch.__version__,
           "gpu": torch.cuda.get_device_name(), "window_ns": [window, time.monotonic_ns()]}
    if profiler:
        if mode == "profiler":
            profiler.__exit__(None, None, None)
        kernels = [e for e in profiler.profiler.kineto_results.events()
                   if e.device_type() == torch.autograd.DeviceType.CUDA and not e.name().startswith(("Memcpy", "Memset"))]
        out["kernels"] = len(kernels)
        out["names"] = sorted({e.name() for e in kernels})
        out["kernel_ms"] = sum(e.duration_ns() for e in kernels) / 1e6
    print(json.dumps(out))


main()
