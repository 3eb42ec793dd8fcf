#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks `tacho mcp` thirty questions of which the answers are known, then what a client must not send.

mcp_questions.py TACHO TRACES: in a folder with slow.tacho, fast.tacho (the reference engine), ranks.tacho (64 ranks, 41 is slow in
backward, 7 is missing) and broken.tacho. The truth comes from the files by sqlite3 and json, never from tacho.
"""
import gzip
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys

CALLS, BYTES, WRONG_MOST = 3, 4096, 2


class Client:
    """A session, and how many calls and bytes the present question took."""

    def __init__(self, tacho):
        self.process = subprocess.Popen([tacho, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.number = self.calls = self.largest = 0

    def send(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def request(self, method, parameters):
        self.number += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters}))
        line = self.process.stdout.readline()
        self.largest = max(self.largest, len(line))
        answer = json.loads(line)
        assert answer["jsonrpc"] == "2.0" and answer["id"] == self.number, line
        return answer

    def call(self, tool, **arguments):
        self.calls += 1
        result = self.request("tools/call", {"name": tool, "arguments": arguments})["result"]
        return json.loads(result["content"][0]["text"])


def rows(path, sql):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def one(path, sql):
    return rows(path, sql)[0][0]


def near(got, wanted, part=0.002):
    return isinstance(got, (int, float)) and abs(got - wanted) <= part * abs(wanted) + 1e-6


NAMED = "FROM slice s JOIN string n ON n.id = s.name"
# the steps that count: all but the first and the last
COUNTED = 'FROM step t WHERE "index" BETWEEN 1 AND 10'


def in_counted(name):
    """Mean time in ranges of this name in a counted step, ms."""
    return one("slow.tacho", f"""SELECT sum(s.dur) / 10e6 {NAMED} JOIN step t ON s.start >= t.start AND s.start < t."end"
        WHERE n.text = '{name}' AND t."index" BETWEEN 1 AND 10""")


def place(name, position):
    """The same of the range that is the position-th of its name in each step."""
    return one("slow.tacho", f"""SELECT sum(dur) / 10e6 FROM (SELECT s.dur, t."index" AS i, row_number() OVER
        (PARTITION BY t."index" ORDER BY s.start) AS k {NAMED} JOIN step t ON s.start >= t.start AND s.start < t."end"
        WHERE n.text = '{name}') WHERE k = {position} AND i BETWEEN 1 AND 10""")


def median_ms(path):
    return statistics.median(x[0] / 1e6 for x in rows(path, f'SELECT "end" - start {COUNTED}'))


def by_name(answer, name, key):
    return next((row[key] for row in answer["rows"] if row["name"] == name), None)


def engine_questions():
    slow, slow_ms = {"run": "slow.tacho"}, median_ms("slow.tacho")
    last = one("slow.tacho", "SELECT value FROM counter c JOIN track t ON t.id = c.track WHERE t.name = 'loss' ORDER BY time DESC LIMIT 1")
    slowest = rows("slow.tacho", 'SELECT "index", "end" - start FROM step ORDER BY 2 DESC LIMIT 1')[0]
    longest = rows("slow.tacho", f"""SELECT n.text, s.dur {NAMED} JOIN step t ON s.start >= t.start AND s.start < t."end" WHERE
        t."index" = 5 AND n.text NOT IN ('step', 'micro_step') ORDER BY s.dur DESC LIMIT 1""")[0]
    busiest = rows("slow.tacho", f"""SELECT n.text {NAMED} WHERE n.text LIKE '%.forward' OR n.text LIKE '%.backward'
        GROUP BY 1 ORDER BY sum(s.dur) DESC LIMIT 1""")[0][0]
    peak = one("slow.tacho", "SELECT max(value) FROM counter c JOIN track t ON t.id = c.track WHERE t.name = 'memory.peak'")
    wait = in_counted("input_wait")
    return [
        ("how long is a step", lambda c: near(c.call("summarize", **slow)["steps"]["median_ms"], slow_ms)),
        ("how many tokens a second", lambda c: near(c.call("summarize", **slow)["steps"]["tokens_per_s"],
            one("slow.tacho", f'SELECT sum(tokens) * 1e9 / sum("end" - start) {COUNTED}'))),
        ("how long does a step wait for its batch", lambda c: near(c.call("summarize", **slow)["stages"]["input_ms"], wait, 0.01)),
        ("what do I do about the loader", lambda c: "--workers" in next(
            f["setting"] for f in c.call("summarize", **slow)["fixes"] if f["id"] == "INPUT_STALL")),
        ("how long does backward take", lambda c: near(by_name(c.call("ranges", match="backward", **slow), "backward", "ms_per_step"),
            in_counted("backward"))),
        # four layers: the third from the start is the second that backward reaches
        ("how long does layer 3's backward attention take", lambda c: near(next(r["ms_per_step"] for r in c.call(
            "ranges", match="attention.backward", by="position", **slow)["rows"] if r["position"] == 2), place("attention.backward", 2))),
        ("which step was the slowest", lambda c: [(r["step"], round(r["ms"], 2)) for r in c.call("steps", limit=1, **slow)["rows"]] ==
            [(slowest[0], round(float(f"{slowest[1] / 1e6:.6g}"), 2))]),
        ("what took longest in step 5", lambda c: next(((r["name"], near(r["dur_us"], longest[1] / 1e3)) for r in c.call(
            "slices", step=5, **slow)["rows"] if r["name"] not in ("step", "micro_step"))) == (longest[0], True)),
        ("which operator takes most", lambda c: next(r["name"] for r in c.call("get", section="kernels", sort="-total_us",
            fields="name,total_us", **slow)["rows"] if r["name"].endswith(("ward"))
            and r["name"] not in ("forward", "backward")) == busiest),
        ("how many workers has the loader", lambda c: c.call("get", section="dataloader.workers", **slow)["value"] == 0),
        ("how long does decode take for a batch", lambda c: near(by_name(c.call("ranges", match="decode", **slow), "decode", "mean_us"),
            one("slow.tacho", f"SELECT avg(s.dur) / 1e3 {NAMED} WHERE n.text = 'decode'"))),
        ("what is the loss at the end", lambda c: near(c.call("get", section="counters", match="loss", fields="name,last",
            **slow)["rows"][0]["last"], last)),
        ("how much memory does it track at its peak", lambda c: near(c.call("get", section="memory", **slow)["value"]["peak_bytes"], peak)),
        ("were events lost", lambda c: c.call("summarize", **slow)["quality"]["lost_events"] == 0),
        ("why is there nothing about a GPU", lambda c: "no accelerator" in c.call("get", section="devices", **slow)["absent"]["devices"]),
        ("what does mfu mean", lambda c: any(r["key"] == "utilization/mfu" and "peak" in r["formula"]
            for r in c.call("define", name="mfu")["rows"])),
        ("what would a loader that costs nothing bring", lambda c: near(c.call("advise", edits="loader=0", **slow)["what_if"][0]["step_ms"],
            slow_ms - wait, 0.35)),
        ("what was recorded", lambda c: "--slow decode=0.02" in c.call("summarize", **slow)["run"]["command"]),
        ("how many ranges of matmul are there", lambda c: c.call("sql", query="SELECT count(*) FROM slice JOIN string n ON n.id = name "
            "WHERE n.text LIKE 'matmul%'", **slow)["rows"] == [[one("slow.tacho", f"SELECT count(*) {NAMED} WHERE n.text LIKE 'matmul%'")]]),
        ("is the run with two workers faster, by how much", lambda c: near(c.call("diff", baseline="slow.tacho",
            candidate="fast.tacho")["step"]["delta_ms"], median_ms("fast.tacho") - slow_ms)),
        ("which runs are here", lambda c: {r["run"].rsplit("/", 1)[-1] for r in c.call("list_runs")["rows"]} >=
            {"slow.tacho", "fast.tacho", "ranks.tacho"}),
    ]


def rank_questions():
    ranks = {"run": "ranks.tacho"}
    slow_backward = one("ranks.tacho", f"""SELECT avg(s.dur) / 1e6 {NAMED} JOIN track k ON k.id = s.track JOIN process p ON p.id = k.process
        JOIN step t ON t.process = p.id AND s.start >= t.start AND s.start < t."end" AND t."index" BETWEEN 1 AND 22
        WHERE n.text = 'backward' AND p.rank = 41""")
    return [
        ("what holds the job of 64 ranks back", lambda c: c.call("summarize", **ranks)["verdict_class"] == "STRAGGLER-BOUND"),
        ("which rank is slow", lambda c: c.call("get", section="ranks.straggler", **ranks)["value"]["rank"] == 41),
        ("in which stage is it slow", lambda c: c.call("get", section="ranks.frontier.stage", **ranks)["value"] == "backward"),
        ("which rank is missing", lambda c: "rank 7 of 64" in c.call("get", section="ranks.missing", **ranks)["value"]),
        ("how much faster with that rank like the others", lambda c: 15 < c.call("explain", finding="STRAGGLER",
            **ranks)["gain_pct"]["expected"] < 25),
        ("how long is backward on the slow rank, and on the next one", lambda c: (lambda r: r[0]["rank"] == 41 and
            near(r[0]["ms_per_step"], slow_backward) and r[1]["ms_per_step"] < 0.9 * slow_backward)(
                [r for r in c.call("ranges", match="backward", by="rank", limit=3, **ranks)["rows"] if r["name"] == "backward"])),
    ]


def trace_questions(traces):
    path = os.path.join(traces, "kineto_tb_resnet50_num_workers_0_steps16-21_rank0.json.gz")
    if not os.path.exists(path):
        print("no folder of traces: their questions were not asked")
        return []
    events = [e for e in json.load(gzip.open(path))["traceEvents"] if e.get("ph") == "X"]
    kernels = {}
    for event in events:
        if event.get("cat", "").lower() == "kernel":
            kernels[event["name"]] = kernels.get(event["name"], 0) + event["dur"]
    copies = [e for e in events if e.get("cat", "").lower() == "memcpy" and "HtoD" in e["name"]]
    most = max(kernels, key=kernels.get)
    run = {"run": path}
    return [
        ("what limits the ResNet, and what do I do", lambda c: (lambda s: s["verdict_class"] == "INPUT-BOUND" and
            "num_workers" in s["fixes"][0]["action"])(c.call("summarize", **run))),
        ("how sure is that", lambda c: (lambda g: g["low"] < g["expected"] < g["high"])(
            c.call("summarize", **run)["fixes"][0]["throughput_gain_pct"])),
        ("which kernel takes most device time", lambda c: (lambda r: r["name"][:60] == most[:60] and near(r["total_us"], kernels[most]))(
            c.call("get", section="kernels", sort="-total_us", fields="name,total_us", limit=3, **run)["rows"][0])),
        ("how many copies go to the device", lambda c: next(r["count"] for r in c.call("get", section="copies", **run)["rows"]
            if r["kind"] == "HtoD") == len(copies)),
        ("which GPU was it", lambda c: "V100" in c.call("summarize", **run)["run"]["device"]),
    ]


def protocol(client):
    """What a client may do wrong; every line gets an answer, and the session goes on."""
    assert client.request("nothing/such", {})["error"]["code"] == -32601
    assert client.request("tools/call", {"name": "banana"})["error"]["code"] == -32602
    assert client.request("tools/call", {"name": "sql", "arguments": 3})["error"]["code"] == -32602
    tools = client.request("tools/list", {})["result"]["tools"]
    assert len(tools) == 11 and all(t["annotations"]["readOnlyHint"] and t["inputSchema"]["type"] == "object" for t in tools), tools
    wrong = [("summarize", {"run": "nothing.tacho"}, "NOTFOUND"), ("summarize", {"run": "broken.tacho"}, "CORRUPT"),
             ("summarize", {"run": 7}, "USAGE"), ("summarize", {"rum": "slow.tacho"}, "USAGE"), ("explain", {"finding": "NONE"}, "USAGE"),
             ("get", {"section": "banana"}, "USAGE"), ("get", {"section": "kernels", "fields": "banana"}, "USAGE"),
             ("get", {"by": "banana"}, "USAGE"), ("steps", {"limit": 0}, "USAGE"), ("steps", {"limit": "ten"}, "USAGE"),
             ("ranges", {"by": 1}, "USAGE"), ("diff", {"baseline": "slow.tacho"}, "USAGE"), ("advise", {"edits": "banana=1"}, "USAGE"),
             ("advise", {"edits": "op:banana=0"}, "USAGE"), ("sql", {"query": "SELEC 1"}, "USAGE"), ("sql", {}, "USAGE"),
             ("sql", {"query": "DELETE FROM slice"}, "USAGE"), ("sql", {"query": "ATTACH 'x' AS y"}, "USAGE"),
             ("define", {"name": "banana"}, "USAGE"), ("list_runs", {"folder": "nothing"}, "NOTFOUND"),
             ("summarize", {"max_bytes": 3}, "USAGE"), ("summarize", {"run": "a\0b"}, "USAGE")]
    for tool, arguments, code in wrong:
        answer = client.request("tools/call", {"name": tool, "arguments": {"run": "slow.tacho", **arguments}
                                               if tool in ("explain", "get", "steps", "ranges", "advise", "sql") else arguments})["result"]
        error = json.loads(answer["content"][0]["text"]).get("error", {})
        assert answer["isError"] and error["code"] == code and error["what"], (tool, arguments, answer)
    # at most so many bytes, and what is missing is said
    for limit in (500, 1000, 4000):
        for tool in ("summarize", "get", "slices", "ranges", "sql"):
            more = {"get": {"section": "kernels"}, "sql": {"query": "SELECT * FROM slice, string LIMIT 1000", "limit": 1000}}.get(tool, {})
            answer = client.request("tools/call", {"name": tool, "arguments": {"run": "slow.tacho", "max_bytes": limit, **more}})["result"]
            text = answer["content"][0]["text"]
            assert len(json.dumps(text)) - 2 <= limit, (tool, limit, len(text))
            assert limit > 1000 or "left_out" in json.loads(text), (tool, limit, text)


def malformed(client, tacho):
    """Random bytes and requests that are cut or changed: an answer to each line that asks, never the end of the session."""
    seed = random.Random(1)
    good = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "define", "arguments": {"name": "mfu"}}})
    lines = [good[:seed.randrange(len(good))] for _ in range(60)]
    for _ in range(200):
        text = bytearray(good.encode())
        for _ in range(seed.randrange(1, 6)):
            text[seed.randrange(len(text))] = seed.randrange(256)
        lines.append(text)
    lines += ["[" * 100000, '{"a":' * 3000, "x" * 3000000, '{"jsonrpc":"2.0","id":{},"method":"ping"}', '"text"', "7", "null",
              '[{"jsonrpc":"2.0","id":1,"method":"ping"},7]', '{"jsonrpc":"2.0","id":1,"method":["ping"]}']
    data = b"".join((line.encode() if isinstance(line, str) else bytes(line)).replace(b"\n", b" ") + b"\n" for line in lines)
    out = subprocess.run([tacho, "mcp"], input=data + b'{"jsonrpc":"2.0","id":"last","method":"ping"}\n', stdout=subprocess.PIPE, timeout=120)
    answers = [json.loads(line) for line in out.stdout.splitlines()]
    assert out.returncode == 0 and answers[-1] == {"jsonrpc": "2.0", "id": "last", "result": {}}, out.returncode
    assert client.request("ping", {})["result"] == {}


def main():
    tacho, traces = sys.argv[1:]
    client = Client(tacho)
    start = client.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}})
    assert start["result"]["protocolVersion"] == "2025-06-18" and "tools" in start["result"]["capabilities"], start
    client.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
    questions = engine_questions() + rank_questions() + trace_questions(traces)
    wrong = []
    for question, answered in questions:
        client.calls = client.largest = 0
        try:
            right = answered(client)
        except (KeyError, IndexError, TypeError, StopIteration, json.JSONDecodeError) as error:
            right, question = False, f"{question} ({error!r})"
        if not right or client.calls > CALLS or client.largest > BYTES:
            wrong.append(f"{question}: {client.calls} calls, {client.largest} bytes")
    print(f"{len(questions) - len(wrong)} of {len(questions)} questions answered")
    for line in wrong:
        print("not answered:", line)
    protocol(client)
    malformed(client, tacho)
    client.process.stdin.close()
    assert client.process.wait(60) == 0
    sys.exit(len(wrong) > WRONG_MOST)


main()
