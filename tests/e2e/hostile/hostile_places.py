# SPDX-License-Identifier: Apache-2.0
"""What a file says is what the reports must bear: hostile texts in every place of a run that holds text.

usage: hostile_places.py spoil FILE NUMBER     every text of the .tacho file FILE becomes hostile text NUMBER
       hostile_places.py bear TACHO FILE       the program TACHO reports FILE, with each hostile text in it and with hostile names, and
                                               traces of hostile texts, in all formats; leaves the last reports as out.FORMAT
       hostile_places.py check FORMAT FILE     FORMAT: text, markdown, html, json
bear and check: exit status 1 and a line for each thing wrong
"""
import html.parser
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys

TEXTS = [
    b"</script><img src=x onerror=alert(1)>",
    b"</title></style></svg><script>alert(1)</script>",
    b"a|b`c```d|`e",
    b"```",
    b"``` </code></details><img src=x onerror=alert(1)> [x](javascript:alert(1)) ```",
    b"\x1b[31mred\x1b[0m \x1b]0;title\x07 \xc2\x9b31m",
    b"one\ntwo\r\n# three\n- four\n    five",
    b"\xe2\x80\xaeleft to right\xe2\x81\xa6\xe2\x80\x8b",
    b"bad \xff\xfe\xc3 \xed\xa0\x80 \xf0\x9f",
    b"n" * 10000,
    b"[x](javascript:alert(1)) ![x](http://a.example/x.png) <http://a.example> http://a.example @somebody #12",
    b'" onmouseover="alert(1)" x=\'',
    b"&lt;img&gt;&#60;img src=x onerror=alert(1)&#62;",
    b"%s%n%d{{7*7}}${7*7}\\",
]
NAMES = [
    b"\x1b[31m red\n.tacho", b"<img src=x onerror=alert(1)>.tacho", b"a|b`c```d`.tacho", b"\xe2\x80\xaeevil.tacho",
    b"[x](javascript:alert(1)).tacho", b"bad\xff\xc3.tacho", b'" onmouseover="alert(1)".tacho', b"%s%n.tacho", b"n" * 240 + b".tacho",
]
FORMATS = {"text": [], "markdown": ["--markdown", "--full"], "html": ["--html"], "json": ["--json"]}
# words that mean something to tacho stay: without them nothing is analysed
COLUMNS = {
    "process": ["host", "program", "device", "ended"],
    "track": ["name", "device", "unit"],
    "detail": ["dtype"],
    "ceiling": ["device", "source"],
    "loss": ["source", "reason"],
    "metric": ["reason"],
}
KEPT = {"clock", "start", "start.monotonic_ns", "start.realtime_ns", "end.monotonic_ns", "pause.probability", "max_size", "step"}
NAMES_KEPT = {"step", "input_wait", "micro_step", "nvtx", "thread"}


def spoil(path, number):
    """Several rows of one name: the number of the row goes behind it, so that they stay apart."""
    evil = TEXTS[number]
    db = sqlite3.connect(path)
    db.text_factory = bytes

    def other(row):
        return evil + (b" %d" % row if row else b"")

    def put(table, column, key, row, text):
        db.execute(f'UPDATE "{table}" SET "{column}" = CAST(? AS TEXT) WHERE {key} = ?', (text, row))

    for table, columns in COLUMNS.items():
        for i, (row,) in enumerate(db.execute(f'SELECT rowid FROM "{table}"' if table != "metric" else "SELECT name FROM metric").fetchall()):
            for column in columns:
                put(table, column, "rowid" if table != "metric" else "name", row, other(i))
    for row, text in db.execute("SELECT id, text FROM string").fetchall():
        if text.decode("utf-8", "replace") not in NAMES_KEPT and row % 3:
            put("string", "text", "id", row, other(row))
    for (key,) in db.execute("SELECT key FROM run").fetchall():
        if key.decode() not in KEPT:
            put("run", "value", "key", key.decode(), evil)
    db.execute("INSERT INTO run VALUES (CAST(? AS TEXT), CAST(? AS TEXT))", (b"counter." + evil, evil))
    db.execute("INSERT INTO run VALUES (CAST(? AS TEXT), CAST(? AS TEXT))", (evil, evil))
    db.execute("UPDATE run SET value = CAST(? AS TEXT) WHERE key = 'command'", (b'["' + evil.replace(b'"', b"") + b'","x"]',))
    db.commit()


def kineto(number):
    """Steps of a GPU: names of operators, kernels, modules, annotations, threads, processes, devices, counters, collectives."""
    evil = TEXTS[number].decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()
    events = [{"ph": "M", "name": n, "pid": 1, "tid": 1, "args": {"name": evil, "labels": evil}} for n in ("process_name", "process_labels", "thread_name")]
    for step in range(6):
        t = step * 1000
        events.append({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d" % step, "pid": 1, "tid": 1, "ts": t, "dur": 1000})
        events.append({"ph": "X", "cat": "user_annotation", "name": evil, "pid": 1, "tid": 1, "ts": t, "dur": 900})
        events.append({"ph": "X", "cat": evil, "name": evil, "pid": 1, "tid": 1, "ts": t + 1, "dur": 890})
        events.append({"ph": "C", "name": evil, "pid": 1, "ts": t, "args": {evil: step}})
        for k, extra in enumerate(({"External id": 5, "Concrete Inputs": [evil], "Input type": [evil], "Collective name": evil,
                                    "dtype": evil}, {"Python module id": 1, "Python id": 2}, {})):
            name = evil if k != 1 else "nn.Module: " + evil
            at, c = t + 300 * k, 1 + 10 * step + k
            events.append({"ph": "X", "cat": "python_function" if k == 1 else "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at + 2, "dur": 250, "args": extra})
            events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 10, "dur": 10,
                           "args": {"correlation": c}})
            events.append({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_" + evil if k == 2 else evil, "pid": 0, "tid": 7, "ts": at + 30, "dur": 95,
                           "args": {"device": 0, "stream": 7, "correlation": c, "Collective name": evil, "Process Group Name": evil, "dtype": evil}})
    return json.dumps({"schemaVersion": 1, "distributedInfo": {"backend": evil, "rank": 0, "world_size": 2}, "trace_name": evil,
                       "deviceProperties": [{"id": 0, "name": evil}], "traceEvents": events})


class Reader(html.parser.HTMLParser):
    """Elements, attributes and links of HTML; script: what a page of tacho has of its own."""

    def __init__(self, own_script):
        super().__init__(convert_charrefs=True)
        self.own_script, self.bad, self.text, self.ids, self.links = own_script, [], [], set(), []

    def handle_starttag(self, tag, attributes):
        if tag in ("img", "iframe", "object", "base", "form", "input") or (tag == "script" and not self.own_script):
            self.bad.append(f"an element <{tag}>")
        for name, value in attributes:
            if name.startswith("on") or (name in ("href", "src") and not (value or "").startswith(("#", "data:,"))):
                self.bad.append(f'<{tag} {name}="{value}">'[:200])
            if name == "id":
                self.ids.add(value)
            if name == "href" and value.startswith("#"):
                self.links.append(value[1:])

    def handle_data(self, data):
        self.text.append(data)


UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]")


def shown(text):
    """What no format may show as it is: control characters, marks of direction, signs without width."""
    return [f"U+{ord(c):04X}" for c in UNSEEN.findall(text)]


def check(form, path):
    raw = open(path, "rb").read()
    bad = []
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as e:
        print(f"{form}: not UTF-8: {e}")
        return 1
    if form == "json":
        try:
            json.loads(text)
        except ValueError as e:
            bad.append(str(e))
    elif form == "html":
        reader = Reader(True)
        reader.feed(text)
        bad += reader.bad + [f"a link to nothing: #{link}" for link in reader.links if link not in reader.ids]
        if text.count("</script>") != text.count("<script"):
            bad.append("scripts that end early")
        bad += shown(re.sub(r"<(script|style)[^>]*>.*?</\1>", "", text, flags=re.S).replace("\r", ""))[:5]
    else:
        bad += shown(text)[:5]
        if max(len(line) for line in text.split("\n")) > (20000 if form == "markdown" else 120):
            bad.append("a line of %d characters" % max(len(line) for line in text.split("\n")))
    if form == "markdown":
        try:
            import markdown_it
        except ImportError:
            print("note: no markdown_it: the Markdown is not rendered")
        else:
            page = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)
            reader = Reader(False)
            reader.feed(page)
            bad += reader.bad
            if page.count("<h2>") != 1:
                bad.append("%d titles" % page.count("<h2>"))
    for what in bad:
        print(f"{form}: {what}")
    return bool(bad)


def reports(tacho, path, what):
    """Reports of a file in all formats, each looked at. Returns whether all are as they should be."""
    good = True
    for form, options in FORMATS.items():
        with open(f"out.{form}", "wb") as out:
            done = subprocess.run([tacho, "report", path, *options], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            print(f"{form}: exit status {done.returncode}: {done.stderr.decode('utf-8', 'replace')}")
            good = False
        elif check(form, f"out.{form}"):
            good = False
    if not good:
        print(f"that was {what}")
    return good


def bear(tacho, run):
    """Each hostile text in a run and in a trace, then hostile names of the file. Returns whether the reports bore all of them."""
    good = True
    for number in range(len(TEXTS)):
        shutil.copyfile(run, "spoilt.tacho")
        spoil("spoilt.tacho", number)
        good &= reports(tacho, "spoilt.tacho", f"text {number}")
        said = {form: open(f"out.{form}", "rb").read() for form in FORMATS}
        if number == 0 and (any(b"onerror" not in said[form] for form in ("text", "markdown", "html")) or b'id="finding-' not in said["html"]):
            print("the first text, or a finding, is not in the reports: nothing was tried")
            good = False
        with open("trace.json", "w", encoding="utf-8") as trace:
            trace.write(kineto(number))
        good &= reports(tacho, "trace.json", f"text {number} in a trace")
        if b"largest: ," in open("out.text", "rb").read():
            print(f"text {number} in a trace: a kernel without a name")
            good = False
    for name in NAMES:
        shutil.copyfile(run, name)
        good &= reports(tacho, os.path.join(b".", name), f"the name {name!r}")
    return good


if sys.argv[1] == "spoil":
    spoil(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "bear":
    sys.exit(not bear(sys.argv[2], sys.argv[3]))
else:
    sys.exit(check(sys.argv[2], sys.argv[3]))
