# SPDX-License-Identifier: Apache-2.0
"""Opens HTML reports in a browser without a window and checks what a reader would meet.

usage: html_browser.py [--first] BROWSER PICTURES FILE...     PICTURES: a folder for screenshots, "" for none
--first: the first view with a problem is the last one

Every file is opened at the width of a telephone, of a tablet, of a laptop, of a large screen and in print, light or dark; at the
laptop's its timeline, flame graph and tables are used, axe-core looks at it where it is at hand (a Python package brings it, or TACHO_AXE
names the script), and it is printed to PDF. The browser is driven over pipes by the DevTools protocol. Exit status 1 when something is
wrong; each problem is one line.
"""
import base64
import glob
import importlib.util
import itertools
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time

WAIT = 180  # seconds for one answer: axe-core thinks long about a large page on a busy machine
PAGES_MOST, PDF_MOST = 8, 2000000  # of the printed report

# name, width, height, media, telephone, schemes: what fits depends on the width, what is readable on the scheme; one width has both
VIEWS = [("phone", 390, 844, "", True, ("light",)), ("tablet", 768, 1024, "", True, ("dark",)),
         ("laptop", 1280, 800, "", False, ("light", "dark")), ("wide", 2560, 1440, "", False, ("dark",)),
         ("print", 794, 1123, "print", False, ("light", "dark"))]

WORDS = {"engine.html": "matmul.forward", "resnet50.html": "aten::conv2d"}  # what a reader looks for in a timeline
AT_STEP_WORDS = {"hostile.html": "addmm"}  # what must be readable where a step fills the screen: a trace whose times are given

CHECKS = r"""
(function () {
  var bad = [], dark = matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
  function say(what, e) { if (bad.length < 20) bad.push(what + (e ? ": " + (e.outerHTML || e.nodeValue || "").slice(0, 120) : "")); }
  function all(q, f) { Array.prototype.forEach.call(document.querySelectorAll(q), f); }
  if (document.documentElement.scrollWidth > innerWidth)
    all("body *", function (e) {
      var out = e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll");
      if (out) say("wider than the page", e);
    });
  if (document.documentElement.scrollWidth > innerWidth && !bad.length) say("the page scrolls sideways");
  var level = 0;
  all("h1, h2, h3, h4, h5, h6", function (h) {
    var n = +h.tagName[1];
    if (n > level + 1) say("heading of level " + n + " behind " + level, h);
    if (!h.textContent.trim()) say("an empty heading", h);
    level = n;
  });
  if (document.querySelectorAll("h1").length !== 1) say("not one h1");
  if (!document.querySelector("main") || !document.documentElement.lang || !document.title) say("no main, lang or title");
  all("table", function (t) {
    if (!t.caption || !t.caption.textContent.trim()) say("a table without a caption", t);
  });
  all("th", function (h) { if (!/^(row|col)$/.test(h.getAttribute("scope"))) say("th without scope", h); });
  all("tbody tr", function (r) { if (!r.querySelector("th[scope=row]")) say("a row without a name", r); });
  all("svg, img", function (s) {
    if (s.getAttribute("aria-hidden") === "true") return;
    var by = s.getAttribute("aria-labelledby"), label = by && document.getElementById(by);
    if (s.getAttribute("role") !== "img") say("a picture without a role", s);
    if (!label || !label.textContent.trim()) say("a picture without a label", s);
  });
  all("[aria-labelledby]", function (e) {
    if (!document.getElementById(e.getAttribute("aria-labelledby"))) say("labelled by nothing", e);
  });
  all("button, a[href], summary", function (b) { if (!b.textContent.trim()) say("a control without a name", b); });
  all("[role=region]", function (e) { if (e.tabIndex !== 0) say("a region that keys do not reach", e); });
  /* what screen readers list as places of the page must differ in its name */
  var places = {};
  all("nav, main, header, footer, [role=region], section[aria-labelledby], section[aria-label]", function (e) {
    var by = e.getAttribute("aria-labelledby"), name = by ? document.getElementById(by).textContent : e.getAttribute("aria-label");
    if (e.closest("details:not([open])") || !e.getBoundingClientRect().width) return;
    name = /^(NAV|MAIN|HEADER|FOOTER)$/.test(e.tagName) ? e.tagName + (name || "") : (name || "").trim();
    if (places[name]) say("two places of the page with the name " + name, e);
    places[name] = true;
  });
  all("figure[data-kind=budget] .scroll", function (e) {
    if (e.scrollWidth > e.clientWidth + 1) say("the budget scrolls sideways", e);
  });
  /* words in a box of a picture end in it */
  all("svg text.on", function (t) {
    var r = t.previousElementSibling, box, word = t.getBoundingClientRect();
    while (r && r.tagName !== "rect") r = r.previousElementSibling;
    box = r && r.getBoundingClientRect();
    if (box && word.width && word.right > box.right + 2) say("a word that leaves its box: " + t.textContent, t);
  });
  /* no picture cuts a text at its right or left end */
  all("svg[viewBox] text", function (t) {
    var whole = t.ownerSVGElement.getBoundingClientRect(), word = t.getBoundingClientRect();
    if (word.width && (word.right > whole.right + 2 || word.left < whole.left - 2)) say("a text that its picture cuts: " + t.textContent, t);
  });
  all("a[href^='#']", function (a) { if (!document.querySelector(a.getAttribute("href"))) say("a link to nothing", a); });
  /* contrast of every text with what is behind it: WCAG 2 */
  function rgb(c) {
    var m = /rgba?\(([^)]*)\)/.exec(c);
    return m ? m[1].split(/[, /]+/).map(Number) : null;
  }
  function fillOf(e) {
    var f = getComputedStyle(e).fill, url = /url\("?#([^")]*)"?\)/.exec(f);
    return rgb(url ? getComputedStyle(document.getElementById(url[1]).querySelector("rect")).fill : f);
  }
  function behind(e) {
    for (; e; e = e.parentElement) {
      var c = rgb(getComputedStyle(e).backgroundColor);
      if (c && (c.length < 4 || c[3] > 0.99)) return c;
    }
    return dark ? [0, 0, 0] : [255, 255, 255];
  }
  function light(c) {
    var v = c.slice(0, 3).map(function (x) { x /= 255; return x <= 0.04045 ? x / 12.92 : Math.pow((x + 0.055) / 1.055, 2.4); });
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2];
  }
  var texts = 0, least = 99, walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), rects = new Map();
  while (walk.nextNode()) {
    var n = walk.currentNode, e = n.parentElement;
    if (!n.nodeValue.trim() || /^(SCRIPT|STYLE|title)$/.test(e.tagName)) continue;
    var box = e.getBoundingClientRect(), style = getComputedStyle(e);
    if (!box.width || !box.height || style.visibility === "hidden" || box.right < 0) continue;
    var svg = e.closest("svg"), front, back;
    if (svg) {
      if (!rects.has(svg)) rects.set(svg, Array.prototype.map.call(svg.querySelectorAll("rect, circle, path.point"), function (r) {
        return [r, r.getBoundingClientRect()];
      }));
      front = fillOf(e);
      back = behind(svg);
      var x = box.left + (box.width < 20 ? box.width / 2 : 4), y = (box.top + box.bottom) / 2;
      rects.get(svg).forEach(function (r) {
        var b = r[1], before = r[0].compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING;
        if (before && x >= b.left && x <= b.right && y >= b.top && y <= b.bottom) back = fillOf(r[0]) || back;
      });
    } else {
      front = rgb(style.color);
      back = behind(e);
    }
    var a = light(front), b = light(back), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    texts++;
    least = Math.min(least, ratio);
    if (ratio < 4.5) say("contrast " + ratio.toFixed(2) + " of " + front + " on " + back + " (" + n.nodeValue.trim().slice(0, 40) + ")", e);
  }
  if (texts < 20) say("only " + texts + " texts are to be seen");
  return JSON.stringify({ bad: bad, texts: texts, least: least, height: document.documentElement.scrollHeight });
})()
"""

PRESS = """
(function () {
  var n = 0;
  Array.prototype.forEach.call(document.querySelectorAll("details"), function (d) { d.open = true; });
  Array.prototype.forEach.call(document.querySelectorAll("button"), function (b) { if (b.isConnected) { b.click(); n++; } });
  return n;
})()
"""


DRIVEN = """
(function () {
  var t = window.tacho && window.tacho.timeline, c = t && document.querySelector("#zoom canvas"), r = c && c.getBoundingClientRect();
  if (c) c.scrollIntoView({ block: "center", behavior: "instant" });
  r = c && c.getBoundingClientRect();
  return JSON.stringify(t ? { from: t.view.from, to: t.view.to, whole: t.whole, x: r.left, y: r.top, width: r.width, height: r.height,
    left: t.left(), texts: t.texts().length, count: document.querySelector("#zoom .zoom-count").textContent,
    say: document.querySelector("#zoom .zoom-say").textContent } : null);
})()
"""

WITHIN = """
(function () {
  var bad = [], figure = document.querySelector("figure[data-kind=flame]"), input = document.querySelector("input[aria-label^='Filter rows']");
  function visible(table) { return Array.prototype.filter.call(table.tBodies[0].rows, function (r) { return !r.hidden; }).length; }
  if (figure && figure.tacho) {
    var f = figure.tacho, k = f.rows.reduce(function (best, row, i) { return i && row[1] > f.rows[best][1] ? i : best; }, 1);
    f.open(k);
    var at = figure.querySelector(".frame.at rect"), svg = figure.querySelector("svg");
    if (!at || Math.abs(+at.getAttribute("width") - svg.viewBox.baseVal.width) > 0.01) bad.push("an opened frame of the flame graph is not as wide as it");
    f.open(0);
  }
  if (input) {
    var table = input.parentNode.nextElementSibling.querySelector("table"), all = visible(table), first = table.tBodies[0].rows[0].textContent;
    input.value = first.slice(0, 200);
    input.dispatchEvent(new Event("input"));
    if (!(visible(table) >= 1 && visible(table) <= all)) bad.push("the filter of a table shows " + visible(table) + " of " + all + " rows");
    input.value = "no such row \\u0000";
    input.dispatchEvent(new Event("input"));
    if (visible(table)) bad.push("the filter of a table hides nothing");
    input.value = "";
    input.dispatchEvent(new Event("input"));
    if (visible(table) !== all) bad.push("the filter of a table does not end");
  }
  return JSON.stringify(bad);
})()
"""


# The typical step fills the screen: of the boxes of that name that are wide enough for upright letters, how many say it?
AT_STEP = """
(function () {
  var t = window.tacho.timeline, word = %s, kinds = window.tacho.data.events.kinds, boxes = 0, scale;
  if (!t.typical) return JSON.stringify(null);
  t.show(t.typical[2], t.typical[2] + t.typical[3], 1);
  scale = (document.querySelector("#zoom canvas").clientWidth - t.left()) / (t.view.to - t.view.from);
  t.tracks.forEach(function (track) {
    for (var i = 0; track.shown && i < track.start.length; i++)
      boxes += kinds[track.of[i]][0].indexOf(word) >= 0 && track.start[i] >= t.view.from && track.end[i] <= t.view.to &&
        (track.end[i] - track.start[i]) * scale >= 10;
  });
  return JSON.stringify({ boxes: boxes, named: t.texts().filter(function (text) { return text.indexOf(word) >= 0; }).length });
})()
"""


class Browser:
    """A browser without a window, and one page of it. Messages end in NUL: to it on descriptor 3, from it on 4. `folder` is for its
    profile and its temporary files; it has a socket there, so the path must be short."""

    def __init__(self, program, folder):
        there, self.out = os.pipe()
        self.into, back = os.pipe()
        options = ["--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + folder, "--no-first-run", "--disable-gpu",
                   "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
                   "--hide-scrollbars", "--force-color-profile=srgb"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        start = ["bash", "-c", 'exec 3<&%d 4>&%d; exec "$@"' % (there, back), "browser", program]
        self.words = open(os.path.join(folder, "stderr"), "w+b")
        self.process = subprocess.Popen(start + options + ["about:blank"], pass_fds=(there, back), stdout=subprocess.DEVNULL,
                                        stderr=self.words, stdin=subprocess.DEVNULL, env={**os.environ, "TMPDIR": folder})
        os.close(there)
        os.close(back)
        self.rest, self.number, self.events, self.session = b"", 0, [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def message(self, until):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.into], [], [], max(0, until - time.monotonic()))
            if not ready:
                return None
            more = os.read(self.into, 1 << 20)
            if not more:
                self.words.seek(0)
                raise SystemExit("the browser ended: " + self.words.read()[-600:].decode(errors="replace"))
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        until = time.monotonic() + WAIT
        while True:
            answer = self.message(until)
            if answer is None:
                raise SystemExit("no answer to " + method)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit("%s: %s" % (method, answer["error"]["message"]))
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def wait_for(self, method):
        until = time.monotonic() + WAIT
        while not any(e["method"] == method for e in self.events):
            event = self.message(until)
            if event is None:
                raise SystemExit("never came: " + method)
            self.events.append(event)

    def settle(self, seconds):
        """Takes what comes within the time."""
        until = time.monotonic() + seconds
        while True:
            event = self.message(until)
            if event is None:
                return
            self.events.append(event)

    def value(self, expression):
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise SystemExit("script of the test: " + json.dumps(result["exceptionDetails"])[:600])
        return result["result"]["value"]

    def end(self):
        self.session = None
        self.ask("Browser.close")
        os.close(self.out)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def complaints(events, url):
    """What the browser said about the page: errors, what the policy refused, requests."""
    for e in events:
        p = e.get("params", {})
        if e["method"] == "Runtime.exceptionThrown":
            yield "exception: " + p["exceptionDetails"].get("exception", {}).get("description", p["exceptionDetails"]["text"])[:200]
        elif e["method"] == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            yield "console: " + json.dumps(p["args"])[:200]
        elif e["method"] == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            yield "log: " + p["entry"]["text"][:300]
        elif e["method"] == "Network.requestWillBeSent":
            asked = p["request"]["url"]
            if asked.split("#")[0] != url and asked != "data:,":
                yield "request: " + asked[:200]
        elif e["method"] == "Page.javascriptDialogOpening":
            yield "dialog: " + p["message"][:100]


def mouse(b, kind, x, y, **more):
    b.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)


def press(b, key):
    for kind in ("keyDown", "keyUp"):
        b.ask("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" and len(key) == 1 else "")


def drive(b, word, readable):
    """Uses the timeline as a reader would: click, wheel, drag, keys, search. Yields what is wrong. word: what to search for; readable: of
    what every box must have its name where a step fills the screen, or None."""
    def state():
        b.settle(0.1)
        return json.loads(b.value(DRIVEN))
    yield from json.loads(b.value(WITHIN))
    begin = state()
    if not begin:
        return
    x, y = begin["x"] + (begin["left"] + begin["width"]) / 2, begin["y"] + 60
    for kind in ("mousePressed", "mouseReleased"):
        mouse(b, kind, x, y, button="left", clickCount=1)
    mouse(b, "mouseWheel", x, y, deltaX=0, deltaY=-400)
    near = state()
    if not near["to"] - near["from"] < 0.6 * (begin["to"] - begin["from"]):
        yield "the wheel does not zoom the timeline: %s" % near
    mouse(b, "mousePressed", x, y, button="left", clickCount=1)
    for step in range(1, 6):
        mouse(b, "mouseMoved", x - 40 * step, y, button="left", buttons=1)
    mouse(b, "mouseReleased", x - 200, y, button="left", clickCount=1)
    moved = state()
    shown = near["to"] - near["from"]
    if abs(moved["from"] - near["from"] - shown * 200 / (near["width"] - near["left"])) > 0.02 * shown:
        yield "dragging moves the timeline from %s to %s" % (near["from"], moved["from"])
    press(b, "0")
    if state()["to"] != begin["whole"]:
        yield "0 does not show all of the timeline"
    press(b, "/")
    b.ask("Input.insertText", text=word)
    press(b, "Enter")
    found = state()
    if not found["count"].startswith("1 of ") or word not in found["say"]:
        yield "a search for %s: %s, %s" % (word, found["count"], found["say"])
    if not found["texts"]:
        yield "no name is to be read after a search"
    b.value("document.querySelector('#zoom input').value = ''; 1")
    if readable:
        step = json.loads(b.value(AT_STEP % json.dumps(readable)))
        if not step or step["boxes"] < 8 or step["named"] < step["boxes"]:
            yield "a step fills the screen, and its GEMMs cannot be read: %s" % step


def axe_script():
    """The text of axe-core; None: it is not here."""
    named = os.environ.get("TACHO_AXE", "")
    found = [named] if named else []
    for package in ("axe_core_python", "axe_playwright_python"):
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations if spec else ():
            found += glob.glob(os.path.join(folder, "**", "axe.min.js"), recursive=True)
    return open(found[0], encoding="utf-8").read() if found else None


VIOLATIONS = """
axe.run(document, { rules: { "color-contrast": { enabled: %s } } }).then(function (result) {
  return JSON.stringify(result.violations.map(function (v) { return v.id + ": " + v.nodes.length + " x " + v.nodes[0].html.slice(0, 120); }));
})
"""


def accessible(b):
    """What axe-core says about the page. Contrast, which takes it a minute, is looked at above; with TACHO_AXE_ALL it does so too."""
    script = axe_script()
    if script is None:
        return
    b.value(script + "; 1")
    yield from ("axe: " + line for line in json.loads(b.value(VIOLATIONS % ("true" if os.environ.get("TACHO_AXE_ALL") else "false"))))


def printed(b):
    """The report on paper: not too many pages, not too many bytes."""
    pdf = base64.b64decode(b.ask("Page.printToPDF", printBackground=True)["data"])
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    if not 1 <= pages <= PAGES_MOST or len(pdf) > PDF_MOST:
        yield "printed: %d pages, %d bytes" % (pages, len(pdf))


def look(b, path, view, scheme, pictures):
    name, width, height, media, phone = view[:5]
    url = "file://" + os.path.abspath(path)
    b.events.clear()
    b.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
    b.ask("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
    b.ask("Page.navigate", url=url)
    b.wait_for("Page.loadEventFired")
    b.settle(0.2)
    found = json.loads(b.value(CHECKS))
    problems = list(found["bad"])
    if pictures:
        clip = {"x": 0, "y": 0, "width": width, "height": min(found["height"], 12000), "scale": 1}
        shot = b.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        stem = os.path.splitext(os.path.basename(path))[0]
        with open(os.path.join(pictures, "%s-%s-%s.png" % (stem, name, scheme)), "wb") as out:
            out.write(base64.b64decode(shot["data"]))
    pressed = 0
    if name == "laptop" and scheme == "light":
        problems += accessible(b) if os.path.basename(path) in WORDS else []
        problems += printed(b)
        problems += drive(b, WORDS.get(os.path.basename(path), "a"), AT_STEP_WORDS.get(os.path.basename(path)))
    if name != "print":
        pressed = b.value(PRESS)
        b.settle(0.5)
        problems += json.loads(b.value(CHECKS))["bad"]
    if not any(e["method"] == "Network.requestWillBeSent" for e in b.events):
        problems.append("the test saw no request, not even the page's")
    problems += complaints(b.events, url)
    print("%s at %d (%s, %s): %d texts, contrast %.1f at least, %d buttons, %d problems" %
          (os.path.basename(path), width, name, scheme, found["texts"], found["least"], pressed, len(problems)))
    for p in problems:
        print("  " + p)
    return len(problems)


def main():
    first = sys.argv[1] == "--first"
    program, pictures, *files = sys.argv[1 + first:]
    bad = 0
    if axe_script() is None:
        print("note: no axe-core: pip install axe-core-python")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir="/tmp") as folder:
        b = Browser(program, folder)
        for domain in ("Page", "Runtime", "Log", "Network"):
            b.ask(domain + ".enable")
        for path, view in itertools.product(files, VIEWS):
            for scheme in view[5]:
                if not (first and bad):
                    bad += look(b, path, view, scheme, pictures)
        b.end()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
