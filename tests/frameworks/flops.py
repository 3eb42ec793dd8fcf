# SPDX-License-Identifier: Apache-2.0
"""Trains a model of plain torch.nn; prints what torch.utils.flop_counter counts of one step, forward and backward, as JSON.

usage: flops.py gpt|resnet|bert|grouped [keywords] [checkpoint|reentrant]      keywords: the model is called with its input by name; checkpoint,
reentrant: the blocks of a GPT are computed once more in the backward pass
"""

import json
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

WIDTH, HEADS, LENGTH, BATCH, WORDS, LAYERS = 64, 4, 96, 4, 512, 3
AGAIN = {"checkpoint", "reentrant"} & set(sys.argv)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        parts = self.qkv(x).view(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Gpt(nn.Module):
    """The output shares the weight of the embedding, as a plain product outside of nn.Linear."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = self.words(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=AGAIN == {"reentrant"}) if AGAIN else block(x)
        return self.norm(x) @ self.words.weight.t()


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, LAYERS), nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        return self.head(self.encoder(self.words(x)))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.norms[1](self.second(self.norms[0](self.first(x)).relu()))
        return (y + self.short(x)).relu()


def resnet():
    rows = [nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    rows += [Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*rows, nn.Linear(64, 10))


def grouped():
    """Convolutions in groups: one channel each, some, and transposed."""
    rows = [nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 32, 1), nn.Conv2d(32, 48, 3, 2, groups=4)]
    rows += [nn.ConvTranspose2d(48, 32, 3, 2, groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*rows, nn.Linear(32, 10))


def pairs_between_groups(model, x):
    """What flop_counter counts too much of the weight gradients: each input channel with each output channel, whatever their groups."""
    flops = 0
    for row in model:
        before, x = x, row(x)
        if getattr(row, "groups", 1) > 1:
            places = (before if isinstance(row, nn.ConvTranspose2d) else x).shape
            flops += 2 * places[0] * places[2] * places[3] * row.weight.numel() * (row.groups - 1)
    return flops


class Named(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x=None):
        return self.inner(x)


def main():
    torch.manual_seed(0)
    kind = sys.argv[1]
    model = {"gpt": Gpt, "bert": Bert, "resnet": resnet, "grouped": grouped}[kind]()
    model = Named(model) if "keywords" in sys.argv else model
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    images = kind in ("resnet", "grouped")
    x = torch.randn(8, 3, 64, 64) if images else torch.randint(0, WORDS, (BATCH, LENGTH))
    y = torch.randint(0, 10, (8,)) if images else x

    def step(forward, backward):
        with forward:
            out = model(x=x) if "keywords" in sys.argv else model(x)
        loss = functional.cross_entropy(out if images else out.flatten(0, 1), y.flatten())
        with backward:
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    forward, backward = FlopCounterMode(display=False), FlopCounterMode(display=False)
    none = torch.enable_grad
    for _ in range(12):
        step(none(), none())
    step(forward, backward)
    for _ in range(12):
        step(none(), none())
    more = pairs_between_groups(model, x) if kind == "grouped" else 0
    print(json.dumps({"forward": forward.get_total_flops(), "backward": backward.get_total_flops() - more, "between_groups": more}))


main()
