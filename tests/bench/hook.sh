#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What recording costs an unmodified PyTorch program on the CPU: a small GPT in training steps, plain, under tacho without the Python
# hook, and with it; rounds in turn, the program times its own steps. Rows of four columns separated by tabs: what, measured, budget,
# verdict. A difference inside the noise floor (that of plain against plain) is no overrun.
# usage: tests/bench/hook.sh BUILD      environment: TORCH_PYTHON (python3), BENCH_ROUNDS (7)
set -u
tacho=${1:?BUILD}/tacho
python=${TORCH_PYTHON:-python3}
rounds=${BENCH_ROUNDS:-7}
"$python" -c 'import torch' 2> /dev/null || { printf 'hook of PyTorch\tno PyTorch: TORCH_PYTHON names a python3 that has it\t<= 1 %%\tskipped\n'; exit 0; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cat > loop.py << 'PYTHON'
import statistics, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(1)
width, layers, steps = 256, 6, int(sys.argv[1])
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.attn = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = torch.nn.Sequential(torch.nn.LayerNorm(width), torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))
    def forward(self, x):
        y = self.norm(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)
model = torch.nn.Sequential(torch.nn.Embedding(256, width), *[Block() for _ in range(layers)], torch.nn.Linear(width, 256))
data = TensorDataset(torch.randint(0, 256, (8 * (steps + 5), 65)))
optimizer = torch.optim.AdamW(model.parameters())
times = []
for (batch,) in DataLoader(data, batch_size=8, shuffle=True):
    start = time.perf_counter()
    loss = torch.nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    times.append(time.perf_counter() - start)
print("%.6f" % (1e3 * statistics.median(times[5:])), sum(1 for _ in model.modules()))
PYTHON
one() { # WHO COMMAND...
    local who=$1
    shift
    "$@" "$python" loop.py 60 2> "$work/err" | tail -n 1 >> "$work/$who" || { cat "$work/err" >&2; exit 1; }
}
for ((i = 0; i < rounds; i++)); do
    one plain env
    one bare "$tacho" run --no-hook --no-peak --overhead 0 -o "bare$i.tacho" --
    one again env
    one hook "$tacho" run --no-peak --overhead 0 -o "hook$i.tacho" --
    rm -f ./*.tacho
done
python3 - "$work" << 'PY'
import statistics as st, sys
read = lambda who: [float(line.split()[0]) for line in open(sys.argv[1] + "/" + who)]
plain, again, bare, hook = map(read, ("plain", "again", "bare", "hook"))
base = [(a + b) / 2 for a, b in zip(plain, again)]
share = lambda x: [100 * (v / b - 1) for v, b in zip(x, base)]
floor = max(abs(v) for v in (100 * (a / b - 1) for a, b in zip(plain, again)))
modules = open(sys.argv[1] + "/plain").readline().split()[1]
for name, x in (("a PyTorch step under tacho, without the hook", bare), ("the same with the hook", hook)):
    s = share(x)
    middle = st.median(s)
    print("%s\t%+.2f %% (%+.2f..%+.2f) of %.1f ms, %s modules; noise %.2f %%\t<= 1 %%\t%s" % (name, middle, min(s), max(s), st.median(base),
          modules, floor, "ok" if middle <= 1 else "noise" if middle <= floor else "OVER"))
PY
