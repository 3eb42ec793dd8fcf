/* Flame graphs: a click, or Enter, opens a frame: it gets the whole width, and what was too narrow below it is drawn. */
(function () {
  "use strict";
  const tacho = window.tacho, SPACE = "http" + "://www.w3.org/2000/svg", ROW = 20, NAMED = 28, NARROW = 0.6, DEEP = 60;
  tacho.each("figure[data-kind=flame]", function (figure, number) {
    const data = tacho.data["flame" + number], svg = figure.querySelector("svg"), region = figure.querySelector(".scroll");
    if (!data) return;
    const rows = data.rows, width = svg.viewBox.baseVal.width, tall = svg.viewBox.baseVal.height, below = rows.map(function () { return []; });
    rows.forEach(function (r, i) { if (i) below[r[0]].push(i); });
    let top = 0, at = 0, want = "", layer = null, drawn = [];

    function name(i) { return data.names[rows[i][3]] || "(unnamed)"; }
    function about(i) {
      return name(i) + ": " + tacho.time(rows[i][1]) + ", " + (100 * rows[i][1] / rows[0][1]).toFixed(1) + " %, " + rows[i][2] + " times";
    }
    function make(tag, attributes, parent) {
      const e = document.createElementNS(SPACE, tag);
      Object.keys(attributes).forEach(function (key) { e.setAttribute(key, attributes[key]); });
      parent.appendChild(e);
      return e;
    }
    /* As much of a name as fits, by the widths of its letters in the font that is used. */
    function fit(text, name, room) {
      text.textContent = name;
      if (text.getComputedTextLength() <= room) return;
      let n = Math.min(name.length, Math.floor(room / 3));
      while (n > 1 && text.getSubStringLength(0, n) + 12 > room) n--;
      text.textContent = name.slice(0, n) + "\u2026";
    }
    function frame(i, x, w, depth, outer) {
      const matches = want && name(i).toLowerCase().indexOf(want) >= 0;
      const g = make("g", { "class": "frame" + (want && !matches ? " dim" : "") + (outer ? " outer" : "") + (i === at ? " at" : "") }, layer);
      const r = make("rect", { x: x, y: depth * ROW + 1, width: Math.max(0.3, w), "class": "f" + rows[i][4] }, g);
      make("title", {}, r).textContent = about(i);
      if (w > NAMED) fit(make("text", { "class": "on", x: x + 3, y: depth * ROW + 15 }, g), name(i), w - 6);
      g.addEventListener("click", function () { open(i); });
      drawn.push({ i: i, x: x, depth: depth });
      return depth;
    }
    function draw() {
      const up = [];
      let deepest = 0;
      for (let i = top; i; i = rows[i][0]) up.unshift(rows[i][0]);
      tacho.each(".frame", function (g) { g.remove(); }, svg);
      if (layer) layer.remove();
      layer = make("g", {}, svg);
      drawn = [];
      up.forEach(function (i, depth) { frame(i, 0, width, depth, true); });
      (function place(i, x, depth) {
        const w = rows[i][1] / rows[top][1] * width;
        let left = x;
        if (w < NARROW || depth > DEEP) return;
        deepest = Math.max(deepest, frame(i, x, w, depth));
        below[i].forEach(function (k) {
          place(k, left, depth + 1);
          left += rows[k][1] / rows[top][1] * width;
        });
      })(top, 0, up.length);
      svg.setAttribute("viewBox", "0 0 " + width + " " + Math.max(tall, (deepest + 1) * ROW + 2));
    }
    function open(i) {
      top = at = i;
      draw();
      say.textContent = about(i);
    }
    function go(i) {
      if (i === undefined) return;
      at = i;
      draw();
      say.textContent = about(i);
    }
    function beside(way) {
      const here = drawn.find(function (d) { return d.i === at; }), row = drawn.filter(function (d) { return here && d.depth === here.depth; });
      const next = row[row.indexOf(here) + way];
      if (next) go(next.i);
    }
    function largest(list) {
      return list.slice().sort(function (a, b) { return rows[b][1] - rows[a][1]; })[0];
    }
    /* The time of what matches, without what is inside of another match. */
    function share() {
      return rows.reduce(function (sum, r, i) {
        for (let k = i; ; k = rows[k][0]) {
          if (k !== i && name(k).toLowerCase().indexOf(want) >= 0) return sum;
          if (!k) break;
        }
        return sum + (name(i).toLowerCase().indexOf(want) >= 0 ? r[1] : 0);
      }, 0);
    }
    const say = tacho.element("span", { "class": "zoom-count", role: "status" });
    const search = tacho.element("input", { type: "search", placeholder: "search frames", "aria-label":
      "Search frames: " + figure.querySelector("figcaption").textContent });
    search.addEventListener("input", function () {
      want = search.value.trim().toLowerCase();
      draw();
      say.textContent = want ? (100 * share() / rows[0][1]).toFixed(1) + " % of the time" : "";
    });
    region.addEventListener("keydown", function (event) {
      const keys = { ArrowDown: function () { go(largest(below[at])); }, ArrowUp: function () { go(rows[at][0]); }, ArrowLeft: function () { beside(-1); },
        ArrowRight: function () { beside(1); }, Enter: function () { open(at); }, Escape: function () { open(0); },
        Backspace: function () { open(rows[top][0]); } };
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    tacho.each(".frame", function (g) {
      const index = +g.getAttribute("data-row");
      g.addEventListener("click", function () { open(index); });
    }, svg);
    tacho.tools(figure, [tacho.button("All", function () { open(0); }), tacho.button("Up", function () { open(rows[top][0]); }), search, say]);
    figure.tacho = { open: open, rows: rows, name: name };
  });
})();
