/* The timeline: drawn anew on a canvas at every zoom from the events in the page. A row is a level of a track; a step of the
 * drawing is one search for the next event that is a pixel further, so that a frame costs rows x pixels however many events
 * there are. */
(function () {
  "use strict";
  const box = document.getElementById("zoom"), data = window.tacho.data.events;
  if (!box || !data) return;

  const ROW = 17, GAP = 8, BAND = 20, AXIS = 40, MOST = 620, LETTERS = "CNBMIOH?", FONT = "11px ui-monospace, 'DejaVu Sans Mono', monospace";
  const LEVELS = 40; /* of a track that are shown */
  /* Names of boxes that are too narrow for them stand upright, in rows that are tall enough for nine letters. */
  const TALL = 68, UPRIGHT = 9, LETTER = 6.7, STEP_PX = 900, NARROW_LEAST = 4;
  const CLASSES = ["compute", "communication", "pipeline bubble", "copy", "input", "storage", "host", "no declared role"];
  const COLORS = [[42, 167, 130], [109, 179, 227], [216, 149, 184], [240, 228, 66], [230, 159, 0], [238, 138, 74], [169, 216, 245], [196, 200, 206]];
  const el = window.tacho.element, time = window.tacho.time, short = window.tacho.short;

  /* ---- events ---- */

  /* Numbers of a track: base64 of groups of seven bits, the lowest first; the highest bit says that another follows. */
  function numbers(text) {
    const bytes = atob(text);
    let at = 0;
    return function () {
      let value = 0, factor = 1, byte;
      do {
        byte = bytes.charCodeAt(at++);
        value += (byte & 127) * factor;
        factor *= 128;
      } while (byte & 128);
      return value;
    };
  }
  function row() { return { start: [], end: [], event: [] }; }
  function read(track, index) {
    const next = numbers(track.data), n = track.n, open = [], rows = [];
    const t = { index: index, name: track.name, kind: track.kind, device: track.device, rank: track.rank, start: new Float64Array(n),
      end: new Float64Array(n), what: new Uint8Array(n), of: new Uint32Array(n), around: new Int32Array(n), rows: rows, path: row() };
    let at = 0;
    for (let i = 0; i < n; i++) {
      t.start[i] = at += next();
      t.end[i] = at + next();
      const code = next();
      t.what[i] = code & 7;
      t.of[i] = Math.floor(code / 8);
      while (open.length && t.end[open[open.length - 1]] <= at) open.pop();
      t.around[i] = open.length ? open[open.length - 1] : -1;
      const level = Math.min(open.length, LEVELS - 1);
      open.push(i);
      while (rows.length <= level) rows.push(row());
      rows[level].start.push(at);
      rows[level].end.push(t.end[i]);
      rows[level].event.push(i);
    }
    const mark = numbers(track.path);
    at = 0;
    for (let i = 0; i < track.p; i++) {
      at += mark();
      t.path.start.push(at);
      at += mark();
      t.path.end.push(at);
    }
    t.shown = track.rank === 0 || track.main === 1;
    return t;
  }
  const unit = data.unit, whole = data.ns / unit, kinds = data.kinds, tracks = data.tracks.map(read);
  const bases = kinds.map(function (k) { return k[0].replace(/^.*::/, "").replace(/\.(forward|backward)$/, ""); });
  const ranks = data.ranks.length > 1, typical = data.steps.find(function (s) { return s[4]; });

  /* First place of a row whose end is after `at`. */
  function seek(ends, at, low) {
    let high = ends.length, step = 1;
    while (low + step < high && ends[low + step] <= at) { low += step; step *= 2; }
    high = Math.min(high, low + step + 1);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] <= at) low = middle + 1; else high = middle;
    }
    return low;
  }

  /* Is a step, when it fills the screen, full of boxes in this row that are wide enough for an upright name only? */
  function isNarrow(r) {
    const to = typical[2] + typical[3], scale = STEP_PX / typical[3];
    let narrow = 0;
    for (let i = seek(r.end, typical[2], 0); i < r.start.length && r.start[i] < to; i++) {
      const px = (r.end[i] - r.start[i]) * scale;
      if (px >= UPRIGHT && px < 6 * LETTER) narrow++;
    }
    return narrow >= NARROW_LEAST;
  }
  tracks.forEach(function (t) {
    t.height = t.rows.reduce(function (top, r) {
      r.top = top;
      r.height = typical && isNarrow(r) ? TALL : ROW;
      return top + r.height;
    }, 0);
  });

  /* ---- state ---- */

  const view = { from: 0, to: whole };
  let found = null, matches = [], match = -1, selected = null, flags = [], hits = [], words = null, dirty = false;
  const times = [];

  function clamp(from, to) {
    const least = Math.min(whole, 20), width = Math.min(whole, Math.max(least, to - from)), middle = (from + to) / 2;
    const left = Math.min(whole - width, Math.max(0, middle - width / 2));
    view.from = left;
    view.to = left + width;
    invalidate();
  }
  function zoom(factor, at) {
    const middle = at === undefined ? (view.from + view.to) / 2 : at;
    clamp(middle - (middle - view.from) / factor, middle + (view.to - middle) / factor);
  }
  function pan(share) {
    const by = (view.to - view.from) * share, width = view.to - view.from;
    const from = Math.min(whole - width, Math.max(0, view.from + by));
    clamp(from, from + width);
  }
  function show(from, to, room) {
    const width = Math.max(to - from, 10) * (room || 1.1), middle = (from + to) / 2;
    clamp(middle - width / 2, middle + width / 2);
  }
  function showTypical() { if (typical) show(typical[2], typical[2] + typical[3]); }

  /* ---- the page ---- */

  const canvas = el("canvas", { tabindex: "0", role: "application", "aria-describedby": "zoom-keys", "aria-label":
    "Timeline of " + tracks.length + " tracks. Keys: plus and minus zoom, arrows move, 0 shows all, T the typical step, brackets the critical path." });
  const spacer = el("div", { "class": "zoom-rows" }), scroller = el("div", { "class": "zoom-scroll" });
  const say = el("div", { "class": "zoom-say", role: "status" });
  const search = el("input", { type: "search", size: "24", placeholder: "search ranges and kernels", "aria-label": "Search ranges and kernels" });
  const count = el("span", { "class": "zoom-count", role: "status" });
  function button(text, click, label) {
    const b = el("button", { type: "button" }, text);
    if (label) b.setAttribute("aria-label", label);
    b.addEventListener("click", click);
    return b;
  }
  function tools() { return el("div", { "class": "tools" }, Array.prototype.slice.call(arguments)); }

  scroller.appendChild(canvas);
  scroller.appendChild(spacer);
  box.appendChild(tools(button("Zoom in", function () { zoom(2); }), button("Zoom out", function () { zoom(0.5); }),
    button("All", function () { clamp(0, whole); }), typical ? button("Typical step", showTypical) : "",
    button("\u25c2", function () { onPath(-1); }, "Previous on the critical path"), el("span", {}, "critical path"),
    button("\u25b8", function () { onPath(1); }, "Next on the critical path"),
    search, button("Previous", function () { step(-1); }, "Previous match"), button("Next", function () { step(1); }, "Next match"), count));
  if (data.marks.length)
    box.appendChild(el("div", { "class": "tools" }, [el("span", {}, "Findings")].concat(data.marks.map(function (m, i) {
      return button(m[0] + " " + m[1], function () { toMark(i); });
    }))));
  box.appendChild(scroller);
  box.appendChild(el("p", { "class": "more", id: "zoom-keys" }, "Drag moves; the wheel zooms after a click (or with Ctrl); a click shows an event, a double click zooms to it. " +
    "Keys: + \u2212 \u2190 \u2192 \u2191 \u2193, 0 all, T typical step, [ ] critical path, / search, N next match."));
  box.appendChild(say);
  box.appendChild(picker());
  box.appendChild(box.firstElementChild); /* what is shown of the run */
  box.hidden = false;
  document.querySelectorAll("figure[data-kind=timeline]").forEach(function (f) { f.classList.add("replaced"); });

  function rankName(i) {
    const r = data.ranks[i];
    if (r[1] === "process") return "process " + r[0];
    return "rank " + r[0] + (r[1] ? ", " + r[1] : "");
  }
  function picker() {
    const list = el("details", { "class": "zoom-picker" }, [el("summary", {}, "Tracks")]);
    data.ranks.forEach(function (r, i) {
      const set = el("fieldset", {}, [el("legend", {}, rankName(i))]);
      tracks.forEach(function (t) {
        if (t.rank !== i) return;
        const input = el("input", { type: "checkbox" });
        input.checked = t.shown;
        input.addEventListener("change", function () { t.shown = input.checked; layout(); });
        set.appendChild(el("label", {}, [input, " " + t.name]));
      });
      list.appendChild(set);
    });
    return list;
  }

  /* ---- where rows are ---- */

  let places = [], height = 0, width = 0, left = 0, ratio = 1, style = {}, pictures = {};
  function layout() {
    let y = 0, rank = -1;
    places = [];
    tracks.forEach(function (t) {
      if (!t.shown || !t.rows.length) return;
      if (ranks && t.rank !== rank) {
        places.push({ y: y, head: rankName(t.rank) });
        y += BAND;
      }
      rank = t.rank;
      places.push({ y: y, track: t });
      y += t.height + GAP;
    });
    width = scroller.clientWidth || 600;
    height = Math.min(MOST, y + AXIS + 4);
    left = width < 600 ? 84 : 170;
    ratio = Math.min(2, window.devicePixelRatio || 1);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    scroller.style.height = height + "px";
    spacer.style.height = Math.max(0, y + AXIS + 4 - height) + "px";
    const css = getComputedStyle(document.documentElement);
    ["page", "panel", "ink", "soft", "grid", "line", "roof", "link"].forEach(function (name) { style[name] = css.getPropertyValue("--" + name).trim(); });
    pictures = {};
    tints();
    invalidate();
  }
  let tint = [];
  function tints() {
    tint = COLORS.map(function (c) {
      return [0, 0.16, 0.32].map(function (white) {
        return "rgb(" + c.map(function (v) { return Math.round(v + (255 - v) * white); }).join(",") + ")";
      });
    });
  }
  function x(at) { return left + (at - view.from) / (view.to - view.from) * (width - left); }
  function at(px) { return view.from + (px - left) / (width - left) * (view.to - view.from); }

  /* ---- drawing ---- */

  const draw2d = canvas.getContext("2d", { alpha: false });
  function invalidate() {
    if (dirty) return;
    dirty = true;
    requestAnimationFrame(frame);
  }
  function frame() {
    const begin = performance.now();
    dirty = false;
    draw();
    times.push(performance.now() - begin);
    if (times.length > 2000) times.shift();
  }
  function draw() {
    const g = draw2d, top = scroller.scrollTop;
    hits = [];
    if (words) words = [];
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = style.page;
    g.fillRect(0, 0, width, height);
    g.font = FONT;
    g.textBaseline = "middle";
    grid(g);
    places.forEach(function (p) {
      const y = AXIS + p.y - top;
      if (y > height) return;
      if (!p.head && y + p.track.height + GAP > AXIS) drawTrack(g, p.track, y);
    });
    names(g, top);
    axis(g);
  }
  function grid(g) {
    const span = (view.to - view.from) * unit, step = window.tacho.tick(span, Math.max(2, (width - left) / 110)) / unit;
    g.strokeStyle = style.grid;
    g.lineWidth = 1;
    g.beginPath();
    for (let v = Math.ceil(view.from / step) * step; v <= view.to; v += step) {
      const px = Math.round(x(v)) + 0.5;
      g.moveTo(px, AXIS);
      g.lineTo(px, height);
    }
    g.stroke();
  }
  function drawTrack(g, t, y) {
    t.rows.forEach(function (r, level) {
      const top = y + r.top;
      if (top + r.height > AXIS && top < height) drawRow(g, t, r, top, level);
    });
    drawPath(g, t.path, y + t.height);
  }
  /* Events of one level. What is narrower than a pixel is one mark for all that begin in it; neighbours of one colour join. */
  function drawRow(g, t, r, y, level) {
    const pixel = (view.to - view.from) / (width - left), scale = 1 / pixel, from = view.from, count = r.start.length, tall = r.height - 2;
    let i = seek(r.end, from, 0), run = -1, runEnd = -1, color = "";
    function flush() {
      if (run < 0) return;
      g.fillStyle = color;
      g.fillRect(run, y, runEnd - run, tall);
      run = -1;
    }
    while (i < count && r.start[i] < view.to) {
      const e = r.event[i], a = left + (r.start[i] - from) * scale, b = left + (r.end[i] - from) * scale;
      const dim = found && !found[t.of[e]], fill = dim ? style.grid : tint[t.what[e]][t.of[e] % 3];
      if (b - a >= 3) {
        flush();
        const x0 = Math.max(left, a), x1 = Math.min(width, b);
        g.fillStyle = fill;
        g.fillRect(x0, y, x1 - x0 - 0.6, tall);
        label(g, t, e, x0, x1, y, r.height === TALL, dim);
        i++;
        continue;
      }
      const p0 = Math.max(left, Math.floor(a)), p1 = Math.max(p0 + 1, Math.floor(b));
      if (run < 0 || fill !== color || p0 > runEnd) {
        flush();
        run = p0;
        color = fill;
      }
      runEnd = Math.max(runEnd, p1);
      i = b < p1 ? Math.max(i + 1, seek(r.end, from + (p1 - left) * pixel, i)) : i + 1;
    }
    flush();
    hits.push({ y: y, height: r.height, track: t, row: r, level: level });
    if (selected && selected.track === t && selected.level === level) {
      const x0 = Math.max(left, x(t.start[selected.event])), x1 = Math.min(width, Math.max(x0 + 2, x(t.end[selected.event])));
      if (x1 > left && x0 < width) {
        g.strokeStyle = style.ink;
        g.lineWidth = 2;
        g.strokeRect(x0, y, x1 - x0, tall);
      }
    }
  }
  /* The name in a box: with the letter of its class, or without it and without what the rows above say; cut, or upright, where that
   * does not fit either. */
  function label(g, t, e, x0, x1, y, tall, dim) {
    const px = x1 - x0, room = Math.floor((px - 6) / LETTER), letter = LETTERS[t.what[e]] + " ", name = kinds[t.of[e]][0];
    if (px < UPRIGHT) return;
    const plain = bases[t.of[e]], text = [letter + name, letter + plain, plain].find(function (word) { return word.length <= room; });
    if (!text && tall) {
      g.drawImage(upright(t.of[e], dim), x0 + (px - 13) / 2, y, 13, TALL - 2);
      if (words) words.push(cut(plain, TALL - 4));
    } else if (text || room >= 3) {
      g.fillStyle = dim ? style.ink : "#000000";
      g.fillText(text || cut(letter + name, px - 6), x0 + 3, y + ROW / 2 - 0.5);
      if (words) words.push(text || cut(letter + name, px - 6));
    }
  }
  /* The name of a kind as a picture, from below to above: drawn once, because turned letters are slow to draw. */
  function upright(kind, dim) {
    const key = kind + (dim ? "d" : "");
    if (pictures[key]) return pictures[key];
    const picture = document.createElement("canvas"), g = picture.getContext("2d");
    picture.width = Math.round(13 * ratio);
    picture.height = Math.round((TALL - 2) * ratio);
    g.setTransform(0, -ratio, ratio, 0, 0, picture.height);
    g.font = FONT;
    g.textBaseline = "middle";
    g.fillStyle = dim ? style.ink : "#000000";
    g.fillText(cut(bases[kind], TALL - 4), 2, 7);
    pictures[key] = picture;
    return picture;
  }
  function drawPath(g, r, y) {
    if (!r.start.length || y < AXIS) return;
    let i = seek(r.end, view.from, 0), run = -1, runEnd = -1;
    g.fillStyle = "#d55e00";
    for (; i < r.start.length && r.start[i] < view.to;) {
      const a = Math.max(left, x(r.start[i])), b = Math.min(width, Math.max(a + 1, x(r.end[i])));
      if (run >= 0 && a > runEnd + 1) { g.fillRect(run, y, runEnd - run, 3); run = -1; }
      if (run < 0) run = a;
      runEnd = b;
      i = Math.max(i + 1, seek(r.end, at(b), i));
    }
    if (run >= 0) g.fillRect(run, y, runEnd - run, 3);
  }
  function cut(text, px) {
    const room = Math.floor(px / LETTER);
    return text.length > room ? text.slice(0, Math.max(1, room - 1)) + "\u2026" : text;
  }
  /* Names of tracks stay at the left. */
  function names(g, top) {
    g.fillStyle = style.page;
    g.fillRect(0, AXIS, left, height);
    places.forEach(function (p) {
      const y = AXIS + p.y - top;
      if (y > height || y + BAND < AXIS) return;
      g.fillStyle = p.head ? style.panel : style.page;
      if (p.head) g.fillRect(0, y, width, BAND - 2);
      g.fillStyle = style.ink;
      g.fillText(p.head ? cut(p.head, width - 12) : cut(p.track.name, left - 10), 6, y + (p.head ? BAND / 2 : ROW / 2));
    });
  }
  /* Where in the run the view is, times, steps of the first rank that is shown, and marks of findings. */
  function axis(g) {
    g.fillStyle = style.page;
    g.fillRect(0, 0, width, AXIS);
    g.fillStyle = style.grid;
    g.fillRect(left, 0, width - left, 3);
    g.fillStyle = style.link;
    g.fillRect(left + view.from / whole * (width - left), 0, Math.max(2, (view.to - view.from) / whole * (width - left)), 3);
    const span = (view.to - view.from) * unit, step = window.tacho.tick(span, Math.max(2, (width - left) / 110)) / unit;
    g.fillStyle = style.soft;
    for (let v = Math.ceil(view.from / step) * step; v <= view.to; v += step)
      if (x(v) < width - 40) g.fillText(time((v * unit) + data.start * 1e9, step * unit), x(v) + 3, 12);
    g.fillText("step", 6, 30);
    const shown = places.find(function (p) { return p.track; }), rank = shown ? shown.track.rank : 0;
    let last = -1;
    data.steps.forEach(function (s) {
      const a = Math.max(left, x(s[2])), b = Math.min(width, x(s[2] + s[3]));
      if (s[0] !== rank || b <= left || a >= width || Math.floor(b) === last) return;
      last = Math.floor(b);
      g.fillStyle = s[4] ? style.line : style.panel;
      g.fillRect(a, 22, Math.max(1, b - a - 1), 15);
      if (b - a > 24) {
        g.fillStyle = style.ink;
        g.fillText(cut(s[1] + (s[4] ? " typical" : ""), b - a - 8), a + 4, 30);
      }
    });
    flags = [];
    data.marks.forEach(function (m, i) {
      const px = x(m[3]);
      let flag = px;
      if (px < left || px > width) return;
      while (flags.some(function (f) { return Math.abs(f[0] - flag) < 17; })) flag += 17; /* beside one of the same place */
      flags.push([flag, i]);
      g.fillStyle = style.roof;
      g.fillRect(px, 22, 1, height);
      g.fillRect(flag, 22, 15, 14);
      g.fillStyle = style.page;
      g.fillText(m[0], flag + 4, 30);
    });
  }

  /* ---- what one does ---- */

  function describe(s) {
    const t = s.track, e = s.event, k = kinds[t.of[e]], ns = (t.end[e] - t.start[e]) * unit, up = [];
    let inner = 0;
    for (let i = e + 1; i < t.start.length && t.start[i] < t.end[e]; i++)
      if (t.around[i] === e) inner += t.end[i] - t.start[i];
    for (let i = t.around[e]; i >= 0; i = t.around[i]) up.push(kinds[t.of[i]][0]);
    const list = [["event", k[1] || k[0]], ["class", CLASSES[t.what[e]]], ["duration", time(ns) + (inner ? ", own " + time(ns - inner * unit) : "")],
      ["start", time(t.start[e] * unit + data.start * 1e9, ns / 10)], ["track", (ranks ? rankName(t.rank) + ": " : "") + t.name]];
    if (up.length) list.push(["inside", up.reverse().join(" \u203a ")]);
    if (k[2] || k[3]) list.push(["type", [k[2], k[3]].filter(Boolean).join(", ")]);
    if (k[4] >= 0) list.push(["work", short(k[4]) + "FLOP" + (ns > 0 && k[4] > 0 ? ", " + short(k[4] / ns * 1e9) + "FLOP/s" : "")]);
    if (k[5] >= 0) list.push(["data", short(k[5]) + "B" + (ns > 0 && k[5] > 0 ? ", " + short(k[5] / ns * 1e9) + "B/s" : "")]);
    say.textContent = "";
    say.appendChild(el("dl", {}, [].concat.apply([], list.map(function (p) { return [el("dt", {}, p[0]), el("dd", {}, p[1])]; }))));
  }
  function reveal(t) {
    t.shown = true;
    layout();
    const p = places.find(function (q) { return q.track === t; });
    if (p && (p.y < scroller.scrollTop || p.y + 60 > scroller.scrollTop + height - AXIS)) scroller.scrollTop = Math.max(0, p.y - BAND);
  }
  function levelOf(t, e) {
    let level = 0;
    for (let i = t.around[e]; i >= 0; i = t.around[i]) level++;
    return Math.min(level, LEVELS - 1);
  }
  function select(t, e) {
    selected = { track: t, event: e, level: levelOf(t, e) };
    describe(selected);
    invalidate();
  }
  /* Shows an event, wide enough to read its name. */
  function visit(t, e, keep) {
    reveal(t);
    const span = view.to - view.from, ns = t.end[e] - t.start[e], share = ns / span;
    if (!keep || share > 0.9) show(t.start[e], t.end[e], 3);
    else if (share < 0.1) show(t.start[e], t.end[e], 10);
    else if (t.start[e] < view.from || t.end[e] > view.to) show(t.start[e], t.end[e], span / ns);
    select(t, e);
  }
  function toMark(i) {
    const m = data.marks[i], t = tracks[m[2]];
    reveal(t);
    show(m[3], m[3] + m[4], 4);
    let e = -1;
    for (let k = 0; k < t.start.length && t.start[k] <= m[3]; k++)
      if (t.start[k] === m[3] && t.end[k] === m[3] + m[4]) e = k;
    if (e >= 0) select(t, e); else say.textContent = "";
    say.insertBefore(el("p", {}, [el("strong", {}, m[1]), " " + m[5] + " ", el("a", { href: "#finding-" + m[1] }, "card")]), say.firstChild);
  }
  const path = [].concat.apply([], tracks.map(function (t) {
    return t.path.start.map(function (s, i) { return { at: s, end: t.path.end[i], track: t }; });
  })).sort(function (a, b) { return a.at - b.at; });
  let onPathAt = -1;
  /* The next segment of the critical path after the middle of the view, or the one before. */
  function onPath(way) {
    if (!path.length) { say.textContent = "No critical path was found in this run."; return; }
    const last = path[onPathAt], near = last && last.at < view.to && last.end > view.from, middle = (view.from + view.to) / 2;
    if (near) onPathAt = Math.min(path.length - 1, Math.max(0, onPathAt + way));
    else {
      onPathAt = path.findIndex(function (p) { return p.at >= middle; });
      if (onPathAt < 0) onPathAt = path.length - 1;
    }
    const p = path[onPathAt];
    reveal(p.track);
    show(p.at, p.end, 4);
    say.textContent = "Critical path: " + time((p.end - p.at) * unit) + " on " + (ranks ? rankName(p.track.rank) + ", " : "") + p.track.name +
      ", segment " + (onPathAt + 1) + " of " + path.length;
  }
  function find(text) {
    const want = text.trim().toLowerCase();
    matches = [];
    match = -1;
    found = null;
    count.textContent = "";
    if (want) {
      found = new Uint8Array(kinds.length);
      kinds.forEach(function (k, i) { found[i] = (k[0] + "\n" + (k[1] || "")).toLowerCase().indexOf(want) >= 0 ? 1 : 0; });
      tracks.forEach(function (t) {
        for (let i = 0; i < t.of.length; i++) if (found[t.of[i]]) matches.push([t.index, i]);
      });
      matches.sort(function (a, b) { return tracks[a[0]].start[a[1]] - tracks[b[0]].start[b[1]]; });
      count.textContent = matches.length + (matches.length === 1 ? " match" : " matches");
      if (!matches.length) found = null;
    }
    invalidate();
    return matches.length;
  }
  /* The next match, at first the first one in view. */
  function step(way) {
    if (!matches.length) return;
    if (match < 0) {
      match = matches.findIndex(function (m) { return tracks[m[0]].end[m[1]] > view.from; });
      match = Math.max(0, match);
    } else match = (match + way + matches.length) % matches.length;
    visit(tracks[matches[match][0]], matches[match][1], true);
    count.textContent = (match + 1) + " of " + matches.length;
  }
  function pick(px, py) {
    const hit = hits.find(function (h) { return py >= h.y && py < h.y + h.height; });
    if (!hit || px < left) return null;
    const slack = 2 * (view.to - view.from) / (width - left), i = seek(hit.row.end, at(px) - slack, 0);
    if (i >= hit.row.start.length || hit.row.start[i] > at(px) + slack) return null;
    return [hit.track, hit.row.event[i]];
  }

  let drag = null;
  function place(event) {
    const r = canvas.getBoundingClientRect();
    return [event.clientX - r.left, event.clientY - r.top];
  }
  canvas.addEventListener("pointerdown", function (event) {
    if (event.button) return;
    drag = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, top: scroller.scrollTop, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", function (event) {
    if (!drag) return;
    const dx = event.clientX - drag.x;
    drag.moved = drag.moved || Math.abs(dx) + Math.abs(event.clientY - drag.y) > 4;
    if (!drag.moved) return;
    const by = dx / (width - left) * (drag.to - drag.from), span = drag.to - drag.from;
    const from = Math.min(whole - span, Math.max(0, drag.from - by));
    if (event.pointerType !== "touch") scroller.scrollTop = drag.top - (event.clientY - drag.y);
    clamp(from, from + span);
  });
  canvas.addEventListener("pointerup", function (event) {
    const moved = drag && drag.moved, p = place(event), hit = moved ? null : pick(p[0], p[1]);
    drag = null;
    if (moved) return;
    const flag = p[1] < AXIS ? flags.find(function (f) { return p[0] >= f[0] - 1 && p[0] <= f[0] + 16; }) : null;
    if (flag) toMark(flag[1]);
    else if (hit) select(hit[0], hit[1]);
    else { selected = null; say.textContent = ""; invalidate(); }
  });
  canvas.addEventListener("pointercancel", function () { drag = null; });
  canvas.addEventListener("dblclick", function (event) {
    const p = place(event), hit = pick(p[0], p[1]);
    if (hit) visit(hit[0], hit[1], false);
  });
  canvas.addEventListener("wheel", function (event) {
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    if (event.shiftKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / width);
    else zoom(Math.exp(-event.deltaY * 0.002), at(Math.max(left, place(event)[0])));
  }, { passive: false });
  const keys = { "+": function () { zoom(1.6); }, "=": function () { zoom(1.6); }, "-": function () { zoom(1 / 1.6); }, w: function () { zoom(1.6); },
    s: function () { zoom(1 / 1.6); }, ArrowLeft: function () { pan(-0.2); }, ArrowRight: function () { pan(0.2); }, a: function () { pan(-0.2); },
    d: function () { pan(0.2); }, ArrowUp: function () { scroller.scrollTop -= 60; }, ArrowDown: function () { scroller.scrollTop += 60; },
    0: function () { clamp(0, whole); }, Home: function () { clamp(0, whole); }, t: showTypical, "[": function () { onPath(-1); },
    "]": function () { onPath(1); }, "/": function () { search.focus(); }, n: function () { step(1); }, N: function () { step(-1); },
    Escape: function () { selected = null; search.value = ""; find(""); say.textContent = ""; },
    Enter: function () { if (selected) visit(selected.track, selected.event, false); } };
  canvas.addEventListener("keydown", function (event) {
    const f = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
    if (!f) return;
    event.preventDefault();
    f();
  });
  search.addEventListener("input", function () { find(search.value); });
  search.addEventListener("keydown", function (event) {
    if (event.key === "Enter") { event.preventDefault(); step(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { search.value = ""; find(""); canvas.focus(); }
  });
  scroller.addEventListener("scroll", invalidate);
  new ResizeObserver(layout).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", layout);

  layout();
  if (typical && typical[3] < whole / 3) show(typical[2], typical[2] + typical[3], 3);

  /* For the tests of the page, and for a reader's console. */
  window.tacho.timeline = { view: view, times: times, show: show, zoom: zoom, find: find, step: step, draw: draw, onPath: onPath, toMark: toMark,
    tracks: tracks, whole: whole, typical: typical, left: function () { return left; },
    texts: function () { words = []; draw(); const list = words; words = null; return list; } };
})();
