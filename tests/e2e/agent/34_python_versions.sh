#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Every Python that is found here (PATH, pyenv, conda, uv), and a virtual environment: the output and exit status of a program are
# its own, whatever starts its processes; from 3.9 on its steps are recorded, and what keeps memory is named, by a look at its variables that
# it does not notice. PyTorch is the substitute.
set -u
[ -z "$SAN" ] || { echo "sanitizers are not loaded into python"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
cd "$TMPDIR" || exit 1
bad=0 seen='' last='' count=0
wrong() {
    echo "FAIL: $*"
    bad=1
}
pythons() {
    local minor
    for minor in 6 7 8 9 10 11 12 13 14; do type -ap "python3.$minor"; done
    ls /usr/bin/python3 /opt/*conda*/bin/python3 ~/*conda*/bin/python3 ~/*conda*/envs/*/bin/python3 ~/.pyenv/versions/*/bin/python3 \
        ~/.local/share/uv/python/*/bin/python3 2> /dev/null
}
cat > program.py << 'PYTHON'
import multiprocessing, os, sys, torch
from torch.utils.data.dataloader import DataLoader

def read(queue):
    queue.put([batch[0] for batch in DataLoader(list(range(8)), 4)])

if __name__ == "__main__":
    net, optimizer = torch.nn.Module(), torch.optim.SGD()
    for batch in DataLoader(list(range(40)), 4):  # ten batches
        net(batch)
        optimizer.step()
    for how in sys.argv[2:]:
        context = multiprocessing.get_context(how)
        queue = context.SimpleQueue()
        child = context.Process(target=read, args=(queue,))
        child.start()
        print(how, queue.get(), flush=True)
        child.join()
        print(child.exitcode)
    if os.fork() == 0:
        sys.exit(3)
    print(os.wait()[1], flush=True)
    if sys.argv[1] == "dies":
        os.kill(os.getpid(), 15)
    sys.exit(int(sys.argv[1]))
PYTHON
cat > grows.py << 'PYTHON'
import torch

class Batch:
    alive = 0
    def __init__(self): Batch.alive += 1
    def __del__(self): Batch.alive -= 1

def asked(kept):
    mine = locals()  # until 3.12 the dictionary that the hook looks at
    train(kept, 60)
    return mine["kept"] is kept

def train(kept, count):
    net, optimizer = torch.nn.Module(), torch.optim.SGD()
    for i in range(count):
        batch = Batch()
        net(batch)
        torch.autograd.backward(None)
        optimizer.step()
        kept.append(bytes(bytearray([i % 7]) * 300000))
        assert Batch.alive == 1, "an old batch is alive after step %d" % i

kept = []
assert asked(kept)
print(len(kept))
PYTHON
export PYTHONPATH=$here/torch_substitute
try() { # NAME PYTHON STATUS END START-METHOD...
    local name=$1 python=$2 status=$3 got
    shift 3
    { printf '%s [0, 4]\n0\n' "${@:2}" && echo 768; } > want
    TACHO_HOOK=debug "$TACHO" run --no-peak --no-counters --overhead 0 -o "$name" -- "$python" program.py "$@" > got 2> "$name.err" < /dev/null
    got=$?
    [ "$got" = "$status" ] || wrong "$name: exit status $got, not $status: $(tail -n 3 "$name.err")"
    cmp -s want got || wrong "$name: other output: $(diff want got | head -n 5) $(tail -n 3 "$name.err")"
}
steps() { sqlite3 "$1.tacho" 'SELECT count("end") FROM step'; }
for python in $(pythons); do
    found=$(PYTHONPATH='' "$python" -c 'import sys; print(sys.executable)' 2> /dev/null) || continue
    real=$(realpath "$found")
    case " $seen " in *" $real "*) continue ;; esac
    seen="$seen $real" python=$found
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    name=$version-$((count += 1))
    try "$name" "$python" 7 7 fork
    [ "${version#3.}" -ge 9 ] || continue
    [ "$(steps "$name")" = 10 ] || wrong "$python: $(steps "$name") steps: $(tail -n 3 "$name.err")"
    grown=$(TACHO_HOOK=debug "$TACHO" run --no-peak --no-counters --overhead 0 -o "$name-grows" -- "$python" grows.py 2> "$name.err" < /dev/null)
    [ "$grown" = 60 ] || wrong "$python: grows.py: $grown $(tail -n 3 "$name.err")"
    line=$(grep -n 'kept\.append' grows.py | cut -d: -f1)
    grown=$(sqlite3 "$name-grows.tacho" "SELECT s.text FROM slice x JOIN string s ON s.id = x.name WHERE s.text LIKE 'growing %'")
    [ "$grown" = "growing list kept of train (grows.py:$line): 1 a step, 0.29 MiB each" ] || wrong "$python: what grows: $grown"
    last=$python
done
[ $count -gt 0 ] || { echo "python3 is not here"; exit 77; }
if [ -n "$last" ] && "$last" -m venv --without-pip venv 2> /dev/null; then
    try venv venv/bin/python 143 dies fork spawn forkserver
    [ "$(steps venv)" = 10 ] || wrong "venv of $last: $(steps venv) steps"
fi
echo "found:$seen"
exit $bad
