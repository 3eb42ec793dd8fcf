#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds for the Kineto fuzz targets: small pieces of the shared traces. usage: seeds.py FOLDER_OF_TRACES OUT"""
import glob, gzip, json, os, random, sys

traces, out = sys.argv[1:3]
os.makedirs(out, exist_ok=True)
random.seed(4)


def write(name, data):
    with open(os.path.join(out, name), "wb") as f:
        f.write(data)


for path in sorted(glob.glob(os.path.join(traces, "*.json.gz"))):
    name = os.path.basename(path).split(".")[0]
    raw = gzip.open(path).read()
    write(name + ".head", raw[:3000])  # cut off inside of an event, as it stands in the file
    trace = json.loads(raw, strict=False)
    events = trace.pop("traceEvents")
    kinds = {}
    for e in events:
        kinds.setdefault((e.get("ph"), e.get("cat"), tuple(sorted(e.get("args", {})))), []).append(e)
    some = [random.choice(v) for v in kinds.values()]
    for i in range(0, len(some), 4):  # one of each kind of event, four a file
        text = json.dumps({**({} if i else trace), "traceEvents": some[i:i + 4]})
        write(f"{name}.{i}", text.encode())
    write(name + ".gz", gzip.compress(json.dumps(some[:2]).encode()))
write("late", b'{"traceEvents":[{"ph":"X","name":"a","ts":1.5,"dur":2,"pid":1,"tid":1}],"baseTimeNanoseconds":1700000000000000000}')
write("pairs", b'[{"ph":"B","name":"a","ts":"1","pid":1,"tid":1},{"ph":"E","ts":2,"pid":1,"tid":1},{"ph":"C","name":"c","ts":3,"args":{"v":1e3}}')
write("odd", b'{"traceEvents":[null,{"ph":"X","ts":NaN,"dur":-Infinity},"x",7,{"name":"\\ud83d\\ude00\\u0000\x01","ph":"i","ts":1e15}]}')
