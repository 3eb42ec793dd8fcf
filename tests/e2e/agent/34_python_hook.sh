#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The Python hook: a program that imports PyTorch is recorded with its steps, modules, loader and phases, and is not changed.
# A substitute package with PyTorch's hook points is always there; PyTorch itself is used where python3 (or $TORCH_PYTHON)
# has it.
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
record() { # NAME COMMAND...
    local name=$1
    shift
    TACHO_HOOK=debug "$TACHO" run --no-peak --no-counters --overhead 0 -o "$name" -- "$@" > "$name.out" 2> "$name.err" < /dev/null ||
        wrong "$name: exit code $? ($(tail -n 3 "$name.err"))"
}
one() { sqlite3 "$1.tacho" "$2"; }
ranges() { # NAME: how often each range of the domain torch occurs
    one "$1" "SELECT s.text || ' ' || count(*) FROM slice x JOIN string s ON s.id = x.name JOIN string c ON c.id = x.category
        WHERE c.text IN ('torch', 'torch.steps') AND s.text NOT LIKE 'gc.%' GROUP BY s.text ORDER BY s.text"
}

# ---- the substitute: what must come out is known to the last range
cp -R "$here/torch_substitute" substitute
cat > loop.py << 'PYTHON'
import sys, time, torch
from torch.utils.data.dataloader import DataLoader
pause = float(sys.argv[1])
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.inner = torch.nn.Module()
    def forward(self, x): return self.inner(x)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.a = Block(); self.b = Block()
    def forward(self, x): return self.b(self.a(x))
net, opt, other = Net(), torch.optim.SGD(), torch.optim.SGD()
for batch in DataLoader(list(range(40)), 4):  # ten batches
    net(batch)
    time.sleep(pause)
    torch.autograd.backward(None)
    opt.step()
    other.step()  # a second optimizer makes no steps of its own
    if batch[0] == 20:
        net.eval()
        with torch.no_grad(): net(batch)
        net.train()
        torch.save(None, "x")
try:
    net(None)
except ValueError:
    pass
PYTHON
export PYTHONPATH=$TMPDIR/substitute
record loop python3 loop.py 0.03
[ "$(one loop 'SELECT count(*), count("end") FROM step')" = "11|10" ] || wrong "steps: $(one loop 'SELECT count(*), count("end") FROM step')"
cat > want << 'WANT'
DataLoader.__next__ 11
Net 12
SGD.step 20
a (Block) 12
a.inner (Module) 12
b (Block) 11
b.inner (Module) 11
backward 10
collate 10
read 10
step 11
torch.save 1
WANT
ranges loop | grep -v hook.measure > got
diff want got > difference || wrong "ranges: $(cat difference)"
[ "$(one loop "SELECT count(*) FROM slice x JOIN detail d ON d.id = x.detail WHERE d.kind = 'evaluation'")" = 1 ] || wrong "no evaluation"
[ "$(one loop "SELECT count(*) FROM slice x JOIN string s ON s.id = x.name WHERE x.dur IS NULL AND s.text != 'step'")" = 0 ] || wrong "open ranges"
"$TACHO" report loop.tacho --json > report.json 2> err || wrong "report: $(cat err)"
python3 - << 'PYTHON' || wrong "report"
import json
r = json.load(open("report.json"))
assert r["steps"]["source"] == "tacho.step" and r["steps"]["count"] == 10, r["steps"]
assert r["utilization"]["model_flops_per_step"] is None, r["utilization"]
assert [p["name"] for p in r["phases"]] == ["evaluation", "checkpoint"], r["phases"]
PYTHON

# steps that are too short for ranges of every module: the deepest levels go, the outermost stays, and the file says so
record short python3 loop.py 0
[ "$(one short "SELECT count(*) FROM slice x JOIN string s ON s.id = x.name WHERE s.text = 'Net'")" = 12 ] || wrong "short steps: $(ranges short)"
[ "$(one short "SELECT count(*) FROM slice x JOIN string s ON s.id = x.name WHERE s.text = 'a.inner (Module)'")" -lt 12 ] || wrong "short steps: $(ranges short)"
[ "$(one short "SELECT min(value) FROM counter c JOIN track t ON t.id = c.track WHERE t.name = 'hook.module_depth'")" = 1.0 ] || wrong "short steps: no word"
"$TACHO" report short.tacho --section modules --width 200 > short.report 2>&1 || wrong "short steps: report: exit code $?"
grep -q "^Incomplete: modules below level 1 .* would cost more than 0.4 % of a step" short.report || wrong "short steps: $(cat short.report)"

# gradients that are accumulated for longer than a program without an optimizer goes on without a step; and such a program
cat > accumulates.py << 'PYTHON'
import sys, torch
net, optimizer = torch.nn.Module(), torch.optim.SGD() if sys.argv[1] == "optimizer" else None
for i in range(150):
    net(i)
    torch.autograd.backward(None)
    if optimizer and i % 50 == 49: optimizer.step()
PYTHON
for is in optimizer:3 by-hand:103; do
    record "${is%:*}" python3 accumulates.py "${is%:*}"
    [ "$(one "${is%:*}" 'SELECT count("end") FROM step')" = "${is#*:}" ] || wrong "${is%:*}: $(one "${is%:*}" 'SELECT count("end") FROM step') steps"
done

# what is computed once more in a backward pass, and a pass inside of it, are parts of it: not what another thread or a forked child
# does meanwhile, nor what follows a pass that an exception has left
cat > again.py << 'PYTHON'
import os, threading, torch
class Net(torch.nn.Module): pass
class Again(torch.nn.Module): pass
class Beside(torch.nn.Module): pass
class Child(torch.nn.Module): pass
net, again, beside, child, opt = Net(), Again(), Beside(), Child(), torch.optim.SGD()
def another():
    beside(1)
    torch.autograd.backward(None)
def forks():
    process = os.fork()
    if process == 0:
        child(1)
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0
def graph():
    again(1)
    torch.autograd.backward(None)
    thread = threading.Thread(target=another)
    thread.start()
    thread.join()
    forks()
    again(1)
def fails(): raise ValueError
for i in range(4):
    net(1)
    try: torch.autograd.backward(fails if i == 1 else graph)
    except ValueError: assert i == 1
    opt.step()
PYTHON
record again python3 again.py
cat > want << 'WANT'
Again recompute 6
Beside forward 3
Child forward 3
Net forward 4
SGD.step optimizer 4
backward backward 10
WANT
passes="SELECT s.text || ' ' || d.pass || ' ' || count(*) FROM slice x JOIN string s ON s.id = x.name JOIN detail d ON d.id = x.detail
    WHERE d.schema = 'tacho.work' AND s.text != 'hook.measure' GROUP BY s.text, d.pass ORDER BY s.text"
one again "$passes" > got
diff want got > difference || wrong "passes: $(cat difference)"

# an accelerator that only JAX uses: what the host does in PyTorch beside it is no work of the CPU either
cat > beside_jax.py << 'PYTHON'
import sys, types, torch
from tacho_hook import jitted
net, opt = torch.nn.Module(), torch.optim.SGD()
def train():
    net(1)
    torch.autograd.backward(None)
    opt.step()
train()
bridge = sys.modules["jax._src.xla_bridge"] = types.ModuleType("xla_bridge")
bridge._backends = {"cuda": None}
assert jitted.on_device()
for _ in range(3): train()
PYTHON
record beside_jax python3 beside_jax.py
cat > want << 'WANT'
Module forward 1
SGD.step optimizer 1
backward backward 1
WANT
one beside_jax "$passes" > got
diff want got > difference || wrong "beside JAX: $(cat difference)"

# memory that something else than Python takes: an array that is larger than that of another batch is no reason
cat > larger.py << 'PYTHON'
import ctypes, torch
class Array:
    def __init__(self, count): self.nbytes = count
malloc, fill = ctypes.CDLL(None).malloc, ctypes.CDLL(None).memset
malloc.restype, fill.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
def main():
    net, optimizer, joined = torch.nn.Module(), torch.optim.SGD(), Array(0)
    for i in range(60):
        batch = Array(i << 11)
        if %s: joined = Array(i << 18)
        fill(malloc(1 << 18), 1, 1 << 18)
        net(batch)
        torch.autograd.backward(None)
        optimizer.step()
main()
PYTHON
for joined in False True; do
    sed "s/%s/$joined/" larger.py > "larger-$joined.py"
    record "larger-$joined" python3 "larger-$joined.py"
    ranges "larger-$joined" | grep growing > got
    [ $joined = True ] || { [ ! -s got ] || wrong "an array that is larger by chance: $(cat got)"; continue; }
    [ "$(cat got)" = "growing array joined of main (larger-True.py:6): 0.25 MiB a step 1" ] || wrong "an array that is joined: $(cat got)"
done

# what a step costs is mostly calls of the hook's functions, and of those that it calls: their code is cold each time. So many of
# them in a step between two looks
cat > calls.py << 'PYTHON'
import collections, gc, sys, torch
from torch.utils.data.dataloader import DataLoader
gc.disable()  # a collection has calls of its own
net, opt, calls = torch.nn.Module(), torch.optim.SGD(), collections.Counter()
def called(frame, event, argument):
    if frame.f_code is torch.is_grad_enabled.__code__: return  # PyTorch's own is a function of C
    if event == "call" and any("tacho_hook" in f.f_code.co_filename for f in (frame, frame.f_back)): calls[frame.f_code.co_name] += 1
for i, batch in enumerate(DataLoader(list(range(160)), 4)):
    if i in (34, 38): sys.setprofile(called if i == 34 else None)  # the looks are at 32 and 40
    net(batch)
    torch.autograd.backward(None)
    opt.step()
print(sum(calls.values()) / 4, calls)
PYTHON
record calls python3 calls.py
python3 -c 'import sys; assert 8 <= float(sys.argv[1].split()[0]) <= 21, sys.argv[1]' "$(cat calls.out)" || wrong "calls of the hook in a step: $(cat calls.out)"

# ---- torch.profiler and jax.profiler: the agent is told before it starts and after it has stopped
cat > agent_told.py << 'PYTHON'
import ctypes
told = []
class Agent:  # the agent in the hook's eyes
    def __init__(self, path): self.path = path
    @property
    def tacho_device_profiler(self):
        def tell(active): told.append(active)
        return tell
real, ctypes.PyDLL = ctypes.PyDLL, lambda path: Agent(path) if path.endswith("libtacho.so") else real(path)
PYTHON
cat > profiler.py << 'PYTHON'
from agent_told import told
import torch
with torch.autograd.profiler.profile(): told.append("inside")
with torch.autograd.profiler.profile(enabled=False): pass
print(told)
PYTHON
record profiler python3 profiler.py
[ "$(cat profiler.out)" = "[1, 1, 'inside', 0]" ] || wrong "torch.profiler: $(cat profiler.out)"
mkdir -p made/jax/_src
echo "from . import profiler" > made/jax/__init__.py
echo "from jax._src.profiler import start_trace, stop_trace, trace" > made/jax/profiler.py
cat > made/jax/_src/profiler.py << 'PYTHON'
import contextlib
from agent_told import told
def start_trace(folder):
    told.append("begins")
    if not folder: raise ValueError
def stop_trace(): told.append("ends")
@contextlib.contextmanager
def trace(folder):
    start_trace(folder)
    yield
    stop_trace()
PYTHON
cat > jax_profiler.py << 'PYTHON'
from agent_told import told
import jax
with jax.profiler.trace("folder"): told.append("inside")
try: jax.profiler.start_trace("")
except ValueError: pass
print(told)
PYTHON
PYTHONPATH=$TMPDIR/made record jax_profiler python3 jax_profiler.py
# a package that is in no folder of the path: pip's editable installations put a finder of their own last
cat > editable.py << 'PYTHON'
import importlib.util, os, sys
class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "jax":
            return importlib.util.spec_from_file_location(name, "made/jax/__init__.py", submodule_search_locations=["made/jax"])
sys.meta_path.append(Editable)
import jax.profiler
print(jax.__spec__.loader.exec_module.__module__)
PYTHON
record editable python3 editable.py
[ "$(cat editable.out)" = tacho_hook ] || wrong "an editable package: $(cat editable.out)"
[ "$(cat jax_profiler.out)" = "[1, 'begins', 'inside', 'ends', 0, 1, 'begins', 0]" ] || wrong "jax.profiler: $(cat jax_profiler.out)"

# ---- torch.distributed: calls that block on the CPU, with their bytes as nccl-tests counts them; other calls are left alone
cat > collectives.py << 'PYTHON'
import torch, torch.distributed as dist
x, y = dist.Tensor(1000), dist.Tensor(4000)
for _ in range(2):
    dist.all_reduce(x)
    dist.all_gather([x] * 4, x)
    dist.reduce_scatter_tensor(x, y)
dist.all_reduce(tensor=x, async_op=True)
dist.all_reduce(dist.Tensor(1000, "cuda"))
dist.send(x, 2)
dist.recv(x, src=0)
dist.barrier()
try:
    dist.all_reduce(dist.Tensor(13))
except ValueError:
    pass
try:
    dist.all_reduce(1, 2, 3, 4, 5)
except TypeError as e:
    print(e)
PYTHON
record collectives python3 collectives.py
cat > want << 'WANT'
all_gather|16000|1|4
all_gather|16000|4|4
all_reduce|52|7|4
all_reduce|4000|0|4
all_reduce|4000|3|4
barrier|0|6|4
recv|4000|0|2
reduce_scatter|16000|2|4
reduce_scatter|16000|5|4
send|4000|0|2
WANT
one collectives "SELECT d.collective, d.bytes, x.correlation, d.ranks FROM slice x JOIN detail d ON d.id = x.detail WHERE d.schema = 'tacho.comm'
    AND x.dur IS NOT NULL ORDER BY 1, 2, 3" > got
diff want got > difference || wrong "collectives: $(cat difference)"
grep -q "positional argument" collectives.out || wrong "a call's own words on wrong arguments: $(cat collectives.out)"

# ---- values that are read from a device: each with its line, and only there; without an accelerator PyTorch keeps its own methods
cat > values.py << 'PYTHON'
import sys, time, torch
device, own = sys.argv[1], vars(torch.Tensor)["item"]
if device == "cuda": torch.cuda.init()
net, opt, took = torch.nn.Module(), torch.optim.SGD(), []
for i in range(12):
    net(i)
    loss = torch.Tensor(i, device)
    begin = time.perf_counter()
    loss.item()
    took.append(1e3 * (time.perf_counter() - begin))
    print(loss)
    print(f"{loss:.1f}", file=sys.stderr)
    [loss.tolist(), float(loss)]
    if loss: loss.cpu()
    [loss.to("cpu"), loss.to("cpu", non_blocking=True), loss.to("cuda")]
    torch.Tensor(i, "cpu").item()
    opt.step()
print(vars(torch.Tensor)["item"] is own, sum(took))
PYTHON
record values python3 values.py cuda
record host-values python3 values.py cpu
cat > want << 'WANT'
bool values.py:14 12
cpu values.py:14 11
float values.py:13 12
item values.py:9 12
print values.py:11 12
print values.py:12 12
to cpu values.py:15 12
tolist values.py:13 12
WANT
ranges values | grep values.py > got
diff want got > difference || wrong "values of a device: $(cat difference)"
ranges host-values | grep values.py && wrong "values of the CPU are no waits"
tail -n 1 host-values.out | grep -q ^True || wrong "a program of the CPU has other methods: $(tail -n 1 host-values.out)"
one values "SELECT sum(x.dur) / 1e6 FROM slice x JOIN string s ON s.id = x.name WHERE s.text = 'item values.py:9'" > got
python3 - "$(tail -n 1 values.out)" "$(cat got)" << 'PYTHON' || wrong "values: $(tail -n 1 values.out), recorded $(cat got) ms"
import sys
replaced, took = sys.argv[1].split()
# twelve times 3 ms at least, and each inside of what the program measured
assert replaced == "False" and 36 <= float(sys.argv[2]) <= float(took), sys.argv
PYTHON
[ "$(one values "SELECT count(*) FROM slice x JOIN detail d ON d.id = x.detail WHERE d.schema = 'tacho.work'")" = 0 ] || wrong "what the host launches is no work"
[ "$(one host-values "SELECT count(*) FROM slice x JOIN detail d ON d.id = x.detail WHERE d.schema = 'tacho.work'")" -ge 24 ] || wrong "work of the CPU"
"$TACHO" report values.tacho --json > report.json 2> err || wrong "report: $(cat err)"
python3 - << 'PYTHON' || wrong "values: no SYNC_ITEM"
import json
findings = json.load(open("report.json"))["findings"]
found = [f for f in findings if f["id"] == "SYNC_ITEM"]
assert found and "values.py:" in found[0]["claim"] and "values.py:" in found[0]["action"], findings
assert not any("values.py" in f["claim"] for f in findings if f["id"] == "PYTHON_HOST"), findings
PYTHON

# ---- the module tacho: what a program marks itself, with PyTorch or without; without tacho it does nothing
cat > marks.py << 'PYTHON'
import sys, time, tacho
@tacho.range("depth")
def depth(n): return n and 1 + depth(n - 1)
if "torch" in sys.argv:
    import torch
    optimizer = torch.optim.SGD()
for i in range(6):
    with tacho.range("augment"): time.sleep(0.002)
    depth(2)
    tacho.counter("loss", 6 - i)
    if "torch" in sys.argv:
        for _ in range(2): optimizer.step()  # accumulates: its updates are not the steps
    tacho.step()
try:
    with tacho.range("raises"): raise KeyError
except KeyError: print("left")
PYTHON
export PYTHONPATH=$TMPDIR/substitute:$SRC/profiler/python
[ "$(python3 marks.py 2>&1)" = left ] || wrong "marks without tacho: $(python3 marks.py 2>&1)"
record marks python3 marks.py
record marks-torch python3 marks.py torch
printf '%s\n' 'augment 6' 'depth 18' 'raises 1' 'step 6' > want
ranges marks | grep -v hook.measure > got
diff want got > difference || wrong "marks: $(cat difference)"
[ "$(one marks 'SELECT count("end") FROM step')" = 5 ] || wrong "marks: $(one marks 'SELECT count("end") FROM step') steps"
[ "$(one marks "SELECT count(*) || ' ' || min(value) FROM counter c JOIN track t ON t.id = c.track WHERE t.name = 'loss'")" = "6 1.0" ] || wrong "marks: counter"
# the first two updates come before the program says that it marks its steps
[ "$(one marks-torch 'SELECT count("end") FROM step')" = 7 ] || wrong "marks with PyTorch: $(one marks-torch 'SELECT count("end") FROM step') steps"
# a name for each step: beyond 4096 of them the numbers no longer tell names apart
record marks-names python3 -c 'import tacho
for i in range(4200):
    with tacho.range("part %d" % i): pass'
[ "$(one marks-names "SELECT count(DISTINCT name) BETWEEN 4000 AND 4120 FROM slice")" = 1 ] || wrong "names: $(one marks-names "SELECT count(DISTINCT name) FROM slice")"
[ "$(one marks-names "SELECT count(*) >= 104 FROM slice x JOIN string s ON s.id = x.name WHERE s.text = 'part #'")" = 1 ] || wrong "names without numbers"
export PYTHONPATH=$TMPDIR/substitute

# ---- left alone: without the hook nothing; another sitecustomize runs all the same; a program sees its own path
"$TACHO" run --no-hook --no-peak --no-counters -o none -- python3 loop.py 0 > /dev/null 2>&1 || wrong "--no-hook: exit code $?"
[ "$(one none 'SELECT count(*) FROM step')" = 0 ] || wrong "--no-hook: steps"
mkdir other && echo 'print("the other one")' > other/sitecustomize.py
PYTHONPATH=$TMPDIR/other record other python3 -c 'import sys; print([p for p in sys.path if "tacho-python" in p])'
[ "$(cat other.out)" = $'the other one\n[]' ] || wrong "sitecustomize: $(cat other.out)"
record isolated python3 -I -c 'print(1)'
[ "$(cat isolated.out)" = 1 ] || wrong "python -I: $(cat isolated.out)"
# PyTorch without the hook: the verdict says why, not that ranges are to be marked. A library of that name is what is looked for, now
# and then: the slower a look was, the longer the pause behind it
cp "$BUILD/tacho-python/libtacho_hook.so" libtorch_python.so
echo 'import ctypes, time; ctypes.CDLL("./libtorch_python.so"); time.sleep(5)' > loads.py
without() { # NAME PART COMMAND...
    local name=$1 part=$2
    shift 2
    record "$name" "$@"
    "$TACHO" report "$name.tacho" > "$name.report" 2>&1 || wrong "$name: report: exit code $?"
    tr '\n' ' ' < "$name.report" | grep -q "without tacho's hook.*$part" || wrong "$name: $(head -n 12 "$name.report")"
}
without ignores 'started with -I' python3 -I loads.py
without bare 'started with -S' python3 -S loads.py
without removed 'PYTHONPATH was removed' env -i "$(command -v python3)" loads.py
without replaced 'PYTHONPATH was replaced' env PYTHONPATH=/nowhere python3 loads.py
record kept python3 loads.py
[ "$(one kept "SELECT count(*) FROM run WHERE key = 'hook.missing'")" = 0 ] || wrong "a program with the hook: $(one kept "SELECT value FROM run WHERE key = 'hook.missing'")"
# versions before 2.0 have no hooks for all optimizers: classes get another step, once where one calls that of another
# and before 2.1 no hook is called of a module that an exception leaves
sed -i '/^def register_optimizer_step_p/,$d' substitute/torch/optim/optimizer.py
sed -i 's/, \*, always_call=False//; /assert always_call/d; s/^        finally:/        except ZeroDivisionError: pass\n        else:/' substitute/torch/nn/modules/module.py
cat > early.py << 'PYTHON'
import torch
class Mine(torch.optim.SGD):
    def step(self, closure=None):
        if closure is not None: closure()
        return super().step()
class Inner(torch.nn.Module): pass
class Outer(torch.nn.Module):
    def forward(self, x): return inner(x)
net, outer, inner, first, second = torch.nn.Module(), Outer(), Inner(), torch.optim.SGD(), Mine()
for i in range(12):
    net(i)
    try: outer(None)
    except ValueError: pass
    second.step(closure=lambda: net(i)) if i % 2 else second.step()
    first.step()
PYTHON
record early python3 early.py
for is in step:13 SGD.step:12 Mine.step:12 Module:18 Outer:12; do # of the last step only the begin
    [ "$(one early "SELECT count(*) FROM slice x JOIN string s ON s.id = x.name WHERE s.text = '${is%:*}'")" = "${is#*:}" ] || wrong "before 2.0: not $is"
done
[ "$(one early "SELECT count(*) FROM slice x JOIN string s ON s.id = x.name WHERE x.dur IS NULL AND s.text != 'step'")" = 0 ] || wrong "before 2.1: open ranges"
# a hook point that another version lacks silences its layer only
"$TACHO" run --no-peak --no-counters -o older -- python3 -c 'import torch, torch.nn; torch.nn.Module()(1)' > older.out 2>&1 || wrong "older version: $(cat older.out)"
[ "$(one older "SELECT count(*) FROM slice x JOIN string s ON s.id = x.name WHERE s.text = 'Module'")" = 1 ] || wrong "older version: modules"
unset PYTHONPATH

# ---- PyTorch itself
python=
for p in ${TORCH_PYTHON:-} python3; do
    "$p" -c 'import torch' 2> /dev/null && python=$p && break
done
[ -n "$python" ] || { [ $bad = 0 ] && echo "PyTorch is not here: tested with a substitute only"; exit $bad; }
cat > real.py << 'PYTHON'
import sys, time, torch
from torch.utils.data import DataLoader, Dataset
pause, workers, context = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None
class Data(Dataset):
    def __len__(self): return 16 * 8 * 30
    def __getitem__(self, i): return torch.randn(64), i % 10
def main():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 10))
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    for x, y in DataLoader(Data(), batch_size=16 * 8, num_workers=workers, multiprocessing_context=context):
        loss = torch.nn.functional.cross_entropy(net(x), y)
        time.sleep(pause)
        opt.zero_grad(); loss.backward(); opt.step()
    print("%.6f" % loss.item())
if __name__ == "__main__": main()
PYTHON
# so long a step has room for every level of modules, however fast the machine is
pause=0.03
plain=$("$python" real.py 0 0)
for how in "0" "2 fork" "2 spawn" "2 forkserver"; do
    name=real-${how// /-}
    # shellcheck disable=SC2086
    record "$name" "$python" real.py $pause $how
    [ "$how" != 0 ] || [ "$(cat "$name.out")" = "$plain" ] || wrong "the loss is another: $(cat "$name.out") instead of $plain"
    [ "$(one "$name" 'SELECT count("end") FROM step')" = 30 ] || wrong "$how: $(one "$name" 'SELECT count("end") FROM step') steps"
    for range in "backward 30" "AdamW.step 30" "Sequential 30" "0 (Linear) 30" "2 (Linear) 30" "read 30" "collate 30" "DataLoader.__next__ 31"; do
        ranges "$name" | grep -qxF "$range" || wrong "$how: not $range: $(ranges "$name" | tr '\n' ',')"
    done
    workers=$(one "$name" "SELECT count(DISTINCT t.process) FROM slice x JOIN string s ON s.id = x.name JOIN track t ON t.id = x.track WHERE s.text = 'read'")
    [ "$workers" = "$([ "$how" = 0 ] && echo 1 || echo 2)" ] || wrong "$how: $workers processes read"
done
# steps as short as the machine makes them: a level is recorded in each step up to the one after which the file says that it is not,
# and the report has it for as many steps
record real-quick "$python" real.py 0 0
"$TACHO" report real-quick.tacho --json > report.json 2> err || wrong "report: $(cat err)"
one real-quick "SELECT count(*) FROM step s WHERE s.start < ifnull((SELECT min(c.time) FROM counter c JOIN track t ON t.id = c.track
    WHERE t.name = 'hook.module_depth' AND c.value < 2), 9e18)" > steps
ranges real-quick | sed -n 's/^0 (Linear) //p' > got
python3 - "$(cat got)" "$(cat steps)" << 'PYTHON' || wrong "short steps of PyTorch: $(cat got) ranges, $(cat steps) steps with them"
import json, sys
got, steps = map(int, sys.argv[1:])
assert got == min(steps, 30), (got, steps)
modules = json.load(open("report.json"))["modules"]
assert modules or steps < 3, steps  # the first step and the last one do not count
if steps < 30 and modules:
    row = next(row for row in modules["by_pattern"] if row["name"] == "* (Linear)")  # of both layers
    assert row["steps"] == steps - 1 < modules["steps"] and abs(row["calls"] - 2) < 1e-6, (steps, modules)
    assert modules["levels"] == 1 and "in %d of %d counted" % (steps - 1, modules["steps"]) in modules["left_out"], modules
PYTHON
# functions of the hook that a step enters, with the calls that most programs have
cat > real_calls.py << 'PYTHON'
import collections, gc, sys, torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
gc.disable()
net, criterion, calls = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)), torch.nn.CrossEntropyLoss(), collections.Counter()
opt = torch.optim.SGD(net.parameters(), 1e-3)
def called(frame, event, argument):
    if event == "call" and "tacho_hook" in frame.f_code.co_filename: calls[frame.f_code.co_name] += 1
for i, (x, y) in enumerate(DataLoader(TensorDataset(torch.randn(160, 64), torch.zeros(160, dtype=torch.long)), 4)):
    if i in (34, 38): sys.setprofile(called if i == 34 else None)
    loss = criterion(net(x), y)
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
print(sum(calls.values()) / 4, calls)
PYTHON
record real_calls "$python" real_calls.py
python3 -c 'import sys; assert 8 <= float(sys.argv[1].split()[0]) <= 30, sys.argv[1]' "$(cat real_calls.out)" || wrong "calls of the hook in a step of PyTorch: $(cat real_calls.out)"
# two ranks with gloo: the wait for gradients is communication, and the slow rank is named; the loss stays what it was
cat > ddp.py << 'PYTHON'
import sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(0)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)))
opt = torch.optim.SGD(net.parameters(), 1e-3)
for i in range(32):
    x = torch.randn(32, 64)
    loss = net(x).square().mean()
    if dist.get_rank() == 1: time.sleep(0.06)
    loss.backward(); opt.step(); opt.zero_grad()
with net.no_sync(): net(x).mean().backward() # reduces nothing
if dist.get_rank() == 0: print("%.6f" % loss.item())
dist.destroy_process_group()
PYTHON
ddp=("$python" -m torch.distributed.run --nproc-per-node 2 ddp.py)
plain=$("${ddp[@]}" 2> plain.err)
record real-ddp "${ddp[@]}"
[ "$(cat real-ddp.out)" = "$plain" ] || wrong "the loss is another: $(cat real-ddp.out) instead of $plain"
ranges real-ddp | grep -qxF "gradients reduced 66" || wrong "gloo: $(ranges real-ddp | tr '\n' ',')"
[ "$(one real-ddp "SELECT count(*) || '|' || count(d.bytes) FROM slice x JOIN detail d ON d.id = x.detail WHERE d.collective = 'all_reduce'")" = "64|0" ] ||
    wrong "gloo: $(one real-ddp "SELECT d.schema, d.collective, d.bytes, count(*) FROM slice x JOIN detail d ON d.id = x.detail GROUP BY 1, 2, 3")"
"$TACHO" report real-ddp.tacho --json > report.json 2> err || wrong "report: $(cat err)"
python3 - << 'PYTHON' || wrong "gloo"
import json
r = json.load(open("report.json"))
c, s = r["communication"], r["ranks"]["straggler"]
waits = {k["rank"]: k["waiting_ms"] for k in c["ranks"]}
assert waits[0] > 40 and waits[1] < 0.5 * waits[0], waits  # 60 ms were injected
assert s["rank"] == 1, s
assert r["budget"]["exposed_comm_pct"] > 20, r["budget"]
assert c["bytes_per_step"] is None, c
assert [k["how"] for k in r["ranks"]["clocks"]["ranks"]] == ["reference", "the same clock"], r["ranks"]["clocks"]
PYTHON

# steps too short for their modules: inside of the last level that is left PyTorch has no hooks and takes its fast way; afterwards they
# are back, whatever happened inside, and no module keeps one
cat > deep.py << 'PYTHON'
import sys, threading, torch
from torch.nn.modules import module as m
flat = len(sys.argv) > 1
hooks = []
class Leaf(torch.nn.Module):
    def forward(self, x):
        hooks.append(len(m._global_forward_hooks) + len(m._global_forward_pre_hooks))
        if x is None: raise ValueError
        return x
class Waits(torch.nn.Module):
    def forward(self, x): entered.set(); go_on.wait()
leaves = [Leaf() for _ in range(60)]
net = torch.nn.Sequential(*[torch.nn.Sequential(leaf) for leaf in leaves])
taken = hasattr(m, "_global_forward_hooks_always_called")  # the hooks of a PyTorch before 2.1 stay where they are
weight = torch.nn.Parameter(torch.ones(4))
opt = torch.optim.SGD([weight], 0.1)
def step():
    x = weight * 1
    if flat:
        for leaf in leaves: x = leaf(x)
    else:
        x = net(x)
    x.sum().backward(); opt.step()
for _ in range(40): step()
outside = lambda: len(m._global_forward_hooks) + len(m._global_forward_pre_hooks)
print("inside", hooks[-1], "outside", outside())
if not flat:
    try: net(None)
    except ValueError: print("after an exception", outside())
    try: raise KeyError
    except KeyError: step()
    entered, go_on = threading.Event(), threading.Event()
    other = threading.Thread(target=lambda: Waits()(None))
    other.start(); entered.wait(); step()
    print("beside a thread inside a module", hooks[-1])
    go_on.set(); other.join()
    for _ in range(16): step()
    own = m.register_module_forward_hook(lambda *a: None)
    step()
    print("beside a hook of the program", hooks[-1])
    own.remove()
    print("left in modules", sum(len(x._forward_hooks) + len(getattr(x, "_forward_hooks_always_called", ())) for x in net.modules()))
print(taken)
PYTHON
record deep "$python" deep.py
inside=0
[ "$(tail -n 1 deep.out)" = True ] || inside=2
cat > want << WANT
inside $inside outside 2
after an exception 2
beside a thread inside a module 2
beside a hook of the program $((inside + 1))
left in modules 0
$(tail -n 1 deep.out)
WANT
diff want deep.out > difference || wrong "hooks: $(cat difference)"
[ "$(one deep "SELECT count(*) FROM slice x JOIN string s ON s.id = x.name WHERE s.text = 'Sequential'")" = 60 ] || wrong "deep: $(ranges deep)"
[ "$(one deep "SELECT count(*) FROM slice x JOIN string s ON s.id = x.name WHERE x.dur IS NULL AND s.text != 'step'")" = 0 ] || wrong "deep: open ranges"
record flat "$python" deep.py flat
[ "$(head -n 1 flat.out)" = "inside $inside outside $inside" ] || wrong "no module around the others: $(cat flat.out)"
[ "$(one flat "SELECT min(value) FROM counter c JOIN track t ON t.id = c.track WHERE t.name = 'hook.module_depth'")" = 0.0 ] || wrong "flat: no word"
# a step in which recording is paused: without the hooks, but not in a process that is forked from it, nor once two threads run modules
cat > paused.py << 'PYTHON'
import os, threading, torch
from torch.nn.modules import module as m
hooks = lambda: len(m._global_forward_hooks) + len(m._global_forward_pre_hooks)
net = torch.nn.Sequential(torch.nn.Linear(8, 8))
opt, forked = torch.optim.SGD(net.parameters(), 0.1), None
def steps(n):
    global forked
    for _ in range(n):
        yield hooks()
        if not hooks() and forked is None:
            read, write = os.pipe()
            child = os.fork()
            if not child:
                os.write(write, b"%d" % hooks())
                os._exit(0)
            os.waitpid(child, 0)
            forked = int(os.read(read, 9))
        net(torch.ones(4, 8)).sum().backward(); opt.step()
first = list(steps(200))
other = threading.Thread(target=lambda: net(torch.ones(4, 8)))
other.start(); other.join()
list(steps(1))
print("at first", set(first[:10]), "later", sorted(set(first)), "forked", forked, "two threads", set(steps(100)))
print(hasattr(m, "_global_forward_hooks_always_called"))
PYTHON
TACHO_HOOK=debug "$TACHO" run --no-peak --no-counters --overhead 0.5 -o paused -- "$python" paused.py > paused.out 2> paused.err < /dev/null ||
    wrong "paused: exit code $? ($(tail -n 3 paused.err))"
[ "$(tail -n 1 paused.out)" = False ] || [ "$(head -n 1 paused.out)" = "at first {2} later [0, 2] forked 2 two threads {2}" ] ||
    wrong "hooks while recording is paused: $(cat paused.out)"
[ $bad = 0 ] && echo "PyTorch $("$python" -c 'import torch; print(torch.__version__)')"
exit $bad
