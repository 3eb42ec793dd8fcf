# SPDX-License-Identifier: Apache-2.0
"""html_frames.py trace N                 prints a trace of one GPU with about N rows, half of which are events of a timeline
   html_frames.py measure BROWSER PAGE    zooms and moves the page's timeline for six seconds, and judges the times of its frames
"""
import json
import os
import random
import sys
import tempfile

import html_browser

CALLBACK_MS, DROPPED_PCT = 12, 10

ZOOM = """
new Promise(function (done) {
  var t = window.tacho.timeline, last = 0, frames = 0, dropped = 0, n = 0, FRAMES = 360, PERIOD = 1000 / 60;
  t.show(0, t.whole, 1);
  t.times.length = 0;
  function frame(now) {
    if (last) {
      frames++;
      dropped += Math.max(0, Math.round((now - last) / PERIOD) - 1);
    }
    last = now;
    var share = ++n / FRAMES, half = t.whole / 2 / Math.pow(2, 12 * Math.sin(Math.PI * share)), middle = t.whole * (0.3 + 0.4 * share);
    t.show(middle - half, middle + half, 1);
    if (n < FRAMES) { requestAnimationFrame(frame); return; }
    var times = t.times.slice().sort(function (a, b) { return a - b; });
    done(JSON.stringify({ events: t.tracks.reduce(function (sum, track) { return sum + track.start.length; }, 0), callbacks: times.length,
      median: times[times.length >> 1], p95: times[Math.floor(times.length * 0.95)], dropped: 100 * dropped / (frames + dropped) }));
  }
  requestAnimationFrame(frame);
})
"""


def trace(rows):
    rng, events, at, call, step = random.Random(3), [], 0.0, 0, 0

    def add(category, name, thread, start, length, **args):
        events.append({"ph": "X", "cat": category, "name": name, "pid": thread == 1, "tid": thread, "ts": round(start, 3),
                       "dur": round(length, 3), "args": args})
    while len(events) < rows:
        begin = at
        for layer in range(24):
            first = at
            for op in ("aten::layer_norm", "aten::linear", "aten::softmax", "aten::gelu"):
                start = at
                for _ in range(3):
                    call += 1
                    length = rng.uniform(3, 9)
                    add("cuda_runtime", "cudaLaunchKernel", 1, at + 1, length, correlation=call)
                    add("kernel", "void kernel_of_%s<float>(int)" % op[6:], 7, at + 12 + rng.uniform(0, 3), rng.uniform(2, 8), device=0,
                        stream=7, correlation=call)
                    for kind, process, thread, when in (("s", 1, 1, at + 1), ("f", 0, 7, at + 12)):
                        events.append({"ph": kind, "cat": "ac2g", "name": "ac2g", "id": call, "pid": process, "tid": thread,
                                       "ts": round(when, 3), "bp": "e"})
                    at += length + 2
                add("cpu_op", op, 1, start, at - start)
                at += 1
            add("user_annotation", "layer.%d" % layer, 1, first - 0.5, at - first)
            at += 2
        add("user_annotation", "ProfilerStep#%d" % step, 1, begin - 1, at - begin + 2)
        step, at = step + 1, at + 20
    print(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], "traceEvents": events}))


def measure(program, page):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir="/tmp") as folder:
        b = html_browser.Browser(program, folder)
        b.ask("Page.enable")
        b.ask("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
        b.ask("Page.navigate", url="file://" + os.path.abspath(page))
        b.wait_for("Page.loadEventFired")
        b.value("document.getElementById('zoom').scrollIntoView({ behavior: 'instant' }); 1")
        b.settle(1)
        result = json.loads(b.ask("Runtime.evaluate", expression=ZOOM, awaitPromise=True, returnByValue=True)["result"]["value"])
        b.end()
    print("%(events)d events, %(callbacks)d frames: callback median %(median).1f ms, p95 %(p95).1f ms; %(dropped).1f %% dropped" % result)
    return result["events"] < 90000 or result["p95"] > CALLBACK_MS or result["dropped"] > DROPPED_PCT


if sys.argv[1] == "trace":
    trace(int(sys.argv[2]))
else:
    sys.exit(measure(sys.argv[2], sys.argv[3]))
