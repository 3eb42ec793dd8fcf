# SPDX-License-Identifier: Apache-2.0
"""Steps of GPT-2 124M in PyTorch on the CPU, random weights and words, for tests/bench/engine.sh.

usage: torch_gpt2.py DTYPE T STEPS THREADS    DTYPE fp32 or bf16 (autocast, fp32 master weights)

Four samples of T tokens; scaled_dot_product_attention, tanh GELU, head tied to the embedding, cross-entropy over 50257 words, AdamW
with decay on matrices; no gradient clipping, no torch.compile. AdamW is fused or foreach, whichever is faster here. Prints
`step MS` for each step after two for warming up, and `optimizer NAME`.
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional

LAYERS, CHANNELS, HEADS, WORDS, CONTEXT, BATCH = 12, 768, 12, 50257, 1024, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
        self.qkv, self.projection = nn.Linear(CHANNELS, 3 * CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.up, self.down = nn.Linear(CHANNELS, 4 * CHANNELS), nn.Linear(4 * CHANNELS, CHANNELS)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(c, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.position = nn.Embedding(WORDS, CHANNELS), nn.Embedding(CONTEXT, CHANNELS)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(CHANNELS)
        self.head = nn.Linear(CHANNELS, WORDS, bias=False)
        self.head.weight = self.word.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.word(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def optimizer(model, **kind):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), **kind)


def step(model, update, dtype, tokens, targets):
    begin = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
        loss = model(tokens, targets)
    loss.backward()
    middle = time.perf_counter()
    update.step()
    update.zero_grad(set_to_none=True)
    loss.item()
    end = time.perf_counter()
    return end - begin, end - middle


def main():
    dtype, t, steps, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = GPT2()
    words = torch.randint(WORDS, (BATCH, t + 1))
    tokens, targets = words[:, :-1].contiguous(), words[:, 1:].contiguous()
    tried = {}
    for name in ("fused", "foreach"):
        update = optimizer(model, **{name: True})
        tried[name] = (min(step(model, update, dtype, tokens, targets)[1] for _ in range(2)), update)
    name = min((seconds, name) for name, (seconds, _) in tried.items())[1]
    update = tried[name][1]
    tried.clear()  # the other one's state goes
    print("optimizer", name)
    for _ in range(steps):
        print("step %.3f" % (1e3 * step(model, update, dtype, tokens, targets)[0]), flush=True)


main()
