#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Execution traces drawn by seed, in JSON and in protocol buffers: operators with the tensors that they read and write; and the same as a
program that names the memory of its operands, which it uses again and again. What the report says of the graph is compared with a count by brute force, and what was planted (an operator that could be in place, one that is computed
twice, dead work, a chain to fuse: a norm and what alone reads it) must be named, by its name and nowhere else.
usage: dataflow_exact.py TACHO FOLDER DRAWS SEED [PROGRAM]: with the program target_operands, its runs are looked at instead"""
import json, os, random, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "import"))
sys.dont_write_bytecode = True
from formats import field, varint

KIB = 1024


class Graph:
    """Nodes in program order. A tensor is (storage, elements) of four bytes."""

    def __init__(self, r):
        self.r, self.nodes, self.next = r, [], 100

    def tensor(self, elements):
        self.next += 1
        return (self.next, elements)

    def op(self, name, reads, writes, us=None):
        value = lambda t: [t[0] + 5000, t[0], 0, t[1], 4, "cpu"]
        self.nodes.append({"id": 10 + len(self.nodes), "name": name, "ctrl_deps": 1, "inclusive_dur": us or self.r.randint(20, 400),
                           "exclusive_dur": 1, "inputs": {"values": [value(t) for t in reads] + [1.0, [2, 3]], "shapes": [], "types": []},
                           "outputs": {"values": [value(t) for t in writes], "shapes": [], "types": []}})
        return writes[0] if writes else None

    def messages(self):
        """As Chakra's converter writes them: values are a text as Python prints a list."""
        yield field(1, "0.0.4")
        for node in self.nodes:
            yield (field(1, node["id"]) + field(2, node["name"]) + field(3, 4) + field(7, node["inclusive_dur"]) +
                   field(8, field(1, str(node["inputs"]["values"]))) + field(9, field(1, str(node["outputs"]["values"]))) +
                   field(10, field(1, "is_cpu_op") + field(27, 1)))

    def lines(self):
        """As target_operands reads them. A tensor has the lowest memory that is free, so that it has what others had before; what the
        step did not make has memory of its own."""
        uses, made, free_at, words = {}, set(), [], []
        for i, node in enumerate(self.nodes):
            for side in ("inputs", "outputs"):
                for storage, size in tensors(node, side):
                    uses.setdefault(storage, [i, size, None])[2] = i
                    if side == "outputs" and uses[storage][0] == i and storage not in [s for s, _ in tensors(node, "inputs")]:
                        made.add(storage)
        place, older = {}, 1 << 40
        for storage, (first, size, last) in uses.items():
            if storage not in made:
                place[storage], older = older, older + size
        for storage in sorted(made, key=lambda s: uses[s][0]):
            first, size, last = uses[storage]
            at = 1 << 30
            for other, end, start, stop in sorted(free_at, key=lambda row: row[0]):
                if start <= last and first <= stop and at < end and other < at + size:
                    at = end
            place[storage] = at
            free_at.append((at, at + size, first, last))
        for node in self.nodes:
            read, written = dict(tensors(node, "inputs")), dict(tensors(node, "outputs"))
            words.append(" ".join([node["name"]] + [
                f"{'u' if s in read and s in written else 'r' if s in read else 'w'}{place[s]:x}+{size:x}" for s, size in {**read, **written}.items()]))
        return words

    def write(self, path):
        with open(path, "wb") as f:
            if path.endswith(".et"):
                f.write(b"".join(varint(len(message)) + message for message in self.messages()))
            else:
                f.write(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": self.nodes}).encode())


def draw(r):
    """A forward pass of products with a reduction each, then a backward pass that reads what the forward pass made."""
    g, want = Graph(r), {"in_place": None, "repeated": None, "dead": None}
    size, layers = r.randint(200, 900) * KIB, r.randint(3, 6)
    x, kept = g.tensor(size), []
    plant = r.sample(range(layers), 3)
    for layer in range(layers):
        w = g.tensor(size // 8)
        y = g.op("aten::mm", [x, w], [g.tensor(size)])
        z = g.op("aten::layer_norm", [y], [g.tensor(size)])
        kept.append((y, z, w))
        if layer == plant[0]:  # z is read by nothing else later: the last use of its memory
            want["in_place"] = name = f"custom::gate{r.randint(1, 99)}"
            z = g.op(name, [z], [g.tensor(size)])
            kept[-1] = (y, None, w)
        if layer == plant[1]:
            want["repeated"] = name = f"custom::mask{r.randint(1, 99)}"
            first = g.op(name, [y, w], [g.tensor(size // 2)])
            again = g.op(name, [y, w], [g.tensor(size // 2)])
            g.op("aten::add_", [z, first, again], [z])
        if layer == plant[2]:
            want["dead"] = name = f"custom::debug{r.randint(1, 99)}"
            g.op(name, [y], [g.tensor(size // 3)])
        x = z
    grad = g.op("aten::mse_loss_backward", [x], [g.tensor(size)])
    for y, z, w in reversed(kept):
        grad = g.op("aten::mm_backward", [grad, y, w] + ([z] if z else []), [g.tensor(size)])
        g.op("aten::add_", [w, grad], [w])
    return g, want


# ---- the count by brute force ------------------------------------------------------------------------------------------------------


def tensors(node, side):
    return [(v[1], v[3] * v[4]) for v in node[side]["values"] if isinstance(v, list) and len(v) == 6]


def expected(nodes):
    """Edges from the last writer, the longest path, and the most bytes that live at once."""
    writer, edges, life = {}, set(), {}
    for i, node in enumerate(nodes):
        for storage, size in tensors(node, "inputs"):
            if storage in writer:
                edges.add((writer[storage], i))
            if storage in life:
                life[storage][1] = i
        for storage, size in tensors(node, "outputs"):
            if storage not in life and not any(storage == s for n in nodes[:i + 1] for s, _ in tensors(n, "inputs")):
                life[storage] = [i, i, size]
            elif storage in life:
                life[storage][1] = i
            writer[storage] = i
    end = [0] * len(nodes)
    for i, node in enumerate(nodes):
        end[i] = node["inclusive_dur"] + max((end[a] for a, b in edges if b == i), default=0)
    live = max(sum(size for a, b, size in life.values() if a <= i <= b) for i in range(len(nodes)))
    return {"edges": len(edges), "longest_path_us": max(end), "serial_us": sum(n["inclusive_dur"] for n in nodes),
            "operators": len(nodes), "tensors": len(life), "live_bound_bytes": live, "inferred_edges": 0}


def check(tacho, path, g, want, timed=True):
    ran = subprocess.run([tacho, "report", path, "--json", "--fields", "dataflow"], capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{path}: {ran.stderr}")
    flow = json.loads(ran.stdout)["dataflow"]
    wrong = [f"{key}: {flow and flow[key]}, not {value}" for key, value in expected(g.nodes).items()
             if not flow or (flow[key] != value and (timed or not key.endswith("_us")))]
    for kind in ("in_place", "repeated", "dead"):
        names = [row["name"] for row in flow[kind]] if flow else []
        if (want[kind] or "") not in names or len(names) != (want[kind] is not None):
            wrong.append(f"{kind}: {names}, not {want[kind]}")
    chains = [row["operators"] for row in flow["fusion"]["candidates"]] if flow else []
    if sorted(chains) != ["aten::layer_norm, aten::add_", f"aten::layer_norm, {want['in_place']}"]:
        wrong.append(f"candidates for fusion: {chains}")
    if flow and not flow["live_bound_bytes"] <= flow["pool_bytes"] <= 1.5 * flow["live_bound_bytes"]:
        wrong.append(f"pool {flow['pool_bytes']} for a bound of {flow['live_bound_bytes']}")
    if flow and not flow["longest_path_us"] <= flow["two_streams_us"] <= flow["serial_us"]:
        wrong.append(f"two streams take {flow['two_streams_us']}")
    return wrong


def main():
    tacho, folder, draws, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    program = sys.argv[5] if len(sys.argv) > 5 else None
    os.makedirs(folder, exist_ok=True)
    bad = 0
    for i in range(draws):
        g, want = draw(random.Random(seed * 1000 + i))
        path = f"{folder}/{i}.{'et' if i % 2 else 'json'}"
        if program:
            path = f"{folder}/{i}.tacho"
            with open(f"{folder}/{i}.txt", "w") as f:
                f.write("\n".join(g.lines()) + "\n")
            subprocess.run([tacho, "run", "-o", path, "--overhead", "0", "--no-peak", "--no-counters", "--", program,
                            f"{folder}/{i}.txt", "4"], check=True, capture_output=True)
        else:
            g.write(path)
        wrong = check(tacho, path, g, want, not program)
        bad += bool(wrong)
        for line in wrong:
            print(f"{path}: {line}")
    print(f"{draws - bad} of {draws} draws as planted and counted")
    sys.exit(bad > 0)


main()
