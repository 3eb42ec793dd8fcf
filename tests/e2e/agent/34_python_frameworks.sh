#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Frameworks around PyTorch by the hook's table: their names, phases, callbacks and steps; other packages' loaders and checkpoints. Substitutes
# have the functions that the tables name, in the modules in which transformers 5, DeepSpeed, torchtitan 0.3, timm 1.0, ffcv and Orbax have
# them; tests/frameworks has frameworks themselves.
set -u
[ -z "$SAN" ] || { echo "sanitizers are not loaded into python"; exit 77; }
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
command -v sqlite3 > /dev/null || { echo "needs the program sqlite3"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
cd "$TMPDIR" || exit 1
bad=0
wrong() {
    echo "FAIL: $*"
    bad=1
}
cp -R "$here/torch_substitute" substitute
mkdir -p substitute/transformers substitute/deepspeed/runtime
echo '__version__ = "5.0.1"' > substitute/transformers/__init__.py
cat > substitute/transformers/trainer_callback.py << 'PYTHON'
import time
class CallbackHandler:
    def call_event(self, event, args): time.sleep(0.001)
PYTHON
cat > substitute/transformers/trainer.py << 'PYTHON'
import time, torch
from transformers.trainer_callback import CallbackHandler
class Trainer:
    def __init__(self): self.net, self.optimizer, self.callbacks = torch.nn.Module(), torch.optim.SGD(), CallbackHandler()
    def train(self, steps):
        for i in range(steps):
            self.net(i)
            torch.autograd.backward(None)
            self.optimizer.step()
            self.callbacks.call_event("on_step_end", self)
            if i % 5 == 4:
                self.evaluate()
                self._save_checkpoint()
    def evaluate(self):
        self.net.eval()
        with torch.no_grad():
            for i in range(3): self.net(i)
        self.net.train()
        time.sleep(0.01)
    def _save_checkpoint(self):
        torch.save(None, "x")
        time.sleep(0.005)
PYTHON
touch substitute/deepspeed/__init__.py substitute/deepspeed/runtime/__init__.py
cat > substitute/deepspeed/runtime/engine.py << 'PYTHON'
class DeepSpeedEngine:
    def __init__(self, optimizers): self.optimizers, self.global_steps, self.micro_steps = optimizers, 0, 0
    def step(self):
        self.micro_steps += 1
        if self.micro_steps % 2 == 0:  # accumulates; each group of parameters has an update of its own
            for optimizer in self.optimizers: optimizer.step()
            self.global_steps += 1
PYTHON
mkdir -p substitute/torchtitan/components substitute/timm/data substitute/timm/utils
echo '__version__ = "0.3.0"' > substitute/torchtitan/__init__.py
touch substitute/torchtitan/components/__init__.py
cat > substitute/torchtitan/components/validate.py << 'PYTHON'
import time, torch
class Validator:
    def validate(self, net):
        net.eval()
        with torch.no_grad():
            for i in range(3): net(i)
        net.train()
        time.sleep(0.01)
PYTHON
cat > substitute/torchtitan/trainer.py << 'PYTHON'
import torch
from torchtitan.components.validate import Validator
class Trainer:
    def train(self):
        net, optimizer = torch.nn.Module(), torch.optim.SGD()
        for i in range(20):
            net(i)
            torch.autograd.backward(None)
            optimizer.step()
            if i % 5 == 4: Validator().validate(net)
PYTHON
printf 'from torchtitan.trainer import Trainer\nif __name__ == "__main__": Trainer().train()\n' > substitute/torchtitan/train.py
echo '__version__ = "1.0.31"' > substitute/timm/__init__.py
echo 'from .loader import create_loader' > substitute/timm/data/__init__.py
echo 'def create_loader(dataset): return iter(dataset)' > substitute/timm/data/loader.py
touch substitute/timm/utils/__init__.py
cat > substitute/timm/utils/checkpoint_saver.py << 'PYTHON'
import time
class CheckpointSaver:
    def save_checkpoint(self, epoch): time.sleep(0.005)
    def save_recovery(self, epoch): time.sleep(0.005)
PYTHON
cat > vision.py << 'PYTHON'
import torch
from timm.data import create_loader
from timm.utils.checkpoint_saver import CheckpointSaver
net, optimizer, saver = torch.nn.Module(), torch.optim.SGD(), CheckpointSaver()
for i in create_loader(range(20)):
    net(i)
    torch.autograd.backward(None)
    optimizer.step()
    if i % 5 == 4: saver.save_checkpoint(i)
    if i == 7: saver.save_recovery(i)
PYTHON
# loaders and checkpoints of other packages, which may be imported before PyTorch
mkdir -p substitute/ffcv/loader substitute/orbax/checkpoint
touch substitute/ffcv/__init__.py substitute/ffcv/loader/__init__.py substitute/orbax/__init__.py substitute/orbax/checkpoint/__init__.py
cat > substitute/ffcv/loader/epoch_iterator.py << 'PYTHON'
import time
class EpochIterator:
    def __init__(self, count): self.left = count
    def __iter__(self): return self
    def __next__(self):
        if not self.left: raise StopIteration
        time.sleep(0.003)
        self.left -= 1
        return self.left
PYTHON
cat > substitute/orbax/checkpoint/checkpoint_manager.py << 'PYTHON'
import time
class CheckpointManager:
    def save(self, step, tree): time.sleep(0.01)
PYTHON
cat > feeds.py << 'PYTHON'
from ffcv.loader.epoch_iterator import EpochIterator
from orbax.checkpoint.checkpoint_manager import CheckpointManager
import torch
net, optimizer, manager = torch.nn.Module(), torch.optim.SGD(), CheckpointManager()
for i in EpochIterator(20):
    net(i)
    torch.autograd.backward(None)
    optimizer.step()
    if i % 5 == 4: manager.save(i, None)
PYTHON
echo 'from ffcv.loader.epoch_iterator import EpochIterator; list(EpochIterator(3))' > alone.py
echo 'from transformers.trainer import Trainer; Trainer().train(20)' > trainer.py
cat > engine.py << 'PYTHON'
import torch
from deepspeed.runtime.engine import DeepSpeedEngine
first = torch.optim.SGD()
engine, net = DeepSpeedEngine([first, first, first]), torch.nn.Module()
for i in range(40):
    net(i)
    engine.step()
PYTHON
cat > nano.py << 'PYTHON'
import time, torch
net, optimizer = torch.nn.Module(), torch.optim.SGD()
def get_batch(split):
    time.sleep(0.002)
    return split
def estimate_loss():
    net.eval()
    with torch.no_grad(): net(get_batch("val"))
    net.train()
for i in range(20):
    if i % 10 == 0: estimate_loss()
    net(get_batch("train"))
    torch.autograd.backward(None)
    optimizer.step()
PYTHON
export PYTHONPATH=$TMPDIR/substitute
for program in trainer.py engine.py nano.py vision.py feeds.py alone.py "-m torchtitan.train"; do
    name=$(basename "${program#-m torch}" .py)
    # shellcheck disable=SC2086 # an option and a module
    TACHO_HOOK=debug "$TACHO" run --no-peak --no-counters --overhead 0 -o "$name" -- python3 $program > "$name.out" 2> "$name.err" < /dev/null ||
        wrong "$name: exit code $? ($(tail -n 3 "$name.err"))"
    "$TACHO" report "$name.tacho" --json > "$name.json" 2> err || wrong "report of $name: $(cat err)"
    sqlite3 "$name.tacho" "SELECT s.text, count(*) FROM slice x JOIN string s ON s.id = x.name GROUP BY s.text" > "$name.ranges"
done
is() { # NAME RANGE COUNT
    grep -qxF "$2|$3" "$1.ranges" || wrong "$1: not $3 of $2: $(tr '\n' ',' < "$1.ranges")"
}
is trainer 'framework HF Trainer 5.0.1' 1
is trainer 'callbacks on_step_end' 20
is trainer Trainer.evaluate 4
is trainer Trainer._save_checkpoint 4
is engine 'framework DeepSpeed' 1
is nano 'framework nanoGPT-style script' 1
is nano get_batch 20 # the first one, and that of the first evaluation, come before the program can be known
is nano estimate_loss 1
is titan.train 'framework torchtitan 0.3.0' 1
is titan.train Validator.validate 4
is vision 'framework timm 1.0.31' 1
is vision CheckpointSaver.save_checkpoint 4
is vision CheckpointSaver.save_recovery 1
is feeds EpochIterator.__next__ 21 # the last one ends the epoch
is feeds CheckpointManager.save 4
[ ! -s alone.ranges ] || wrong "a program without a framework has ranges: $(cat alone.ranges)"
python3 - << 'PYTHON' || wrong "reports"
import json
names = ("trainer", "engine", "nano", "titan.train", "vision", "feeds")
trainer, engine, nano, titan, vision, feeds = (json.load(open(name + ".json")) for name in names)
assert 2.9 <= feeds["dataloader"]["wait_ms_per_step"] < 30, feeds["dataloader"]
assert {p["name"]: p["count"] for p in feeds["phases"]} == {"checkpoint": 4}, feeds["phases"]
assert [r["run"]["around"] for r in (titan, vision)] == ["torchtitan 0.3.0", "timm 1.0.31"], (titan["run"], vision["run"])
assert [r["steps"]["count"] for r in (titan, vision)] == [20, 20], (titan["steps"], vision["steps"])
evaluations, checkpoints = ({p["name"]: p for p in r["phases"]}[kind] for r, kind in ((titan, "evaluation"), (vision, "checkpoint")))
assert evaluations["count"] == 4 and evaluations["wall_ms"] >= 40, evaluations
assert checkpoints["count"] == 5 and checkpoints["wall_ms"] >= 25, checkpoints
assert [r["run"]["around"] for r in (trainer, engine, nano)] == ["HF Trainer 5.0.1", "DeepSpeed", "nanoGPT-style script"], trainer["run"]
phases = {phase["name"]: phase for phase in trainer["phases"]}
# whole evaluations and whole checkpoints, not only what PyTorch does in them
assert phases["evaluation"]["count"] == 4 and phases["evaluation"]["wall_ms"] >= 40, phases
assert phases["checkpoint"]["count"] == 4 and phases["checkpoint"]["wall_ms"] >= 20, phases
# three updates of optimizers are one step of the engine; the first update comes before the engine is known
assert 19 <= engine["steps"]["count"] <= 22, engine["steps"]["count"]
assert trainer["steps"]["count"] == 20 and nano["steps"]["count"] == 20, (trainer["steps"], nano["steps"])
PYTHON
"$TACHO" report trainer.tacho > trainer.txt 2>&1
grep -q 'HF Trainer 5.0.1' trainer.txt || wrong "the report does not name the framework: $(head -n 3 trainer.txt)"
exit $bad
