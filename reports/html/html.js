"use strict";
(function () {
  function each(selector, f, root) {
    Array.prototype.forEach.call((root || document).querySelectorAll(selector), f);
  }
  function button(text, click) {
    var b = document.createElement("button");
    b.type = "button";
    b.textContent = text;
    b.addEventListener("click", click);
    return b;
  }
  function tools(figure, list) {
    var bar = document.createElement("div");
    bar.className = "tools";
    list.forEach(function (b) { bar.appendChild(b); });
    figure.insertBefore(bar, figure.querySelector(".scroll"));
    return bar;
  }

  /* Tables sort by a column: numbers with their prefix and unit, else text. */
  var factor = { "": 1, ns: 1e-9, "\u00b5s": 1e-6, ms: 1e-3, s: 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15,
    B: 1, KiB: 1024, MiB: 1048576, GiB: 1073741824, TiB: 1099511627776 };
  function number(text) {
    var m = /^([-+]?[0-9.]+(?:e[-+]?[0-9]+)?) ?([^ ]*)/.exec(text);
    if (!m) return NaN;
    var unit = m[2];
    if (unit in factor) return m[1] * factor[unit];
    return m[1] * (/^[kMGTP]./.test(unit) ? factor[unit[0]] : 1);
  }
  each("table", function (table) {
    each("thead th", function (th, column) {
      var b = button(th.textContent, function () {
        var up = th.getAttribute("aria-sort") === "descending";
        var body = table.tBodies[0], rows = Array.prototype.slice.call(body.rows), last = [];
        rows = rows.filter(function (r) {
          if (r.className === "sum") last.push(r);
          return r.className !== "sum";
        });
        rows.sort(function (a, c) {
          var x = a.cells[column].textContent, y = c.cells[column].textContent, m = number(x), n = number(y);
          if (isNaN(m) !== isNaN(n)) return isNaN(m) ? 1 : -1;
          var d = isNaN(m) ? x.localeCompare(y) : m - n;
          return up ? d : -d;
        });
        rows.concat(last).forEach(function (r) { body.appendChild(r); });
        each("th", function (other) { other.removeAttribute("aria-sort"); }, table.tHead);
        th.setAttribute("aria-sort", up ? "ascending" : "descending");
      });
      th.textContent = "";
      th.appendChild(b);
    }, table);
  });

  /* A flame graph opens at the frame that is clicked. */
  each("figure[data-kind=flame]", function (figure) {
    var svg = figure.querySelector("svg"), frames = [], full = svg.viewBox.baseVal.width;
    each(".frame", function (g) {
      var r = g.querySelector("rect"), t = g.querySelector("text");
      frames.push({ g: g, r: r, t: t, x: +r.getAttribute("x"), w: +r.getAttribute("width"),
        name: r.querySelector("title").textContent });
    }, svg);
    function show(x, w) {
      frames.forEach(function (f) {
        var left = Math.max(0, (f.x - x) / w * full), right = Math.min(full, (f.x + f.w - x) / w * full);
        f.g.style.display = right - left < 0.5 ? "none" : "";
        f.r.setAttribute("x", left);
        f.r.setAttribute("width", Math.max(0, right - left));
        if (!f.t && right - left > 40) {
          f.t = document.createElementNS("http" + "://www.w3.org/2000/svg", "text");
          f.t.setAttribute("class", "on");
          f.t.setAttribute("y", +f.r.getAttribute("y") + 14);
          f.g.appendChild(f.t);
        }
        if (f.t) {
          var name = f.name, room = right - left - 6;
          f.t.setAttribute("x", left + 3);
          f.t.textContent = room < 22 ? "" : name;
          if (room >= 22 && f.t.getComputedTextLength() > room) {
            var n = Math.min(name.length, Math.floor(room / 3));
            while (n > 1 && f.t.getSubStringLength(0, n) + 12 > room) n--;
            f.t.textContent = name.slice(0, n) + "\u2026";
          }
        }
      });
    }
    frames.forEach(function (f) {
      f.g.addEventListener("click", function () { show(f.x, f.w); });
    });
    if (frames.length) tools(figure, [button("All", function () { show(0, full); })]);
  });

  /* A timeline grows to the right; the window scrolls over it. */
  each("figure[data-kind=timeline]", function (figure) {
    var svg = figure.querySelector("svg"), width = svg.viewBox.baseVal.width, zoom = 1;
    function set(z) {
      var box = figure.querySelector(".scroll"), middle = (box.scrollLeft + box.clientWidth / 2) / box.scrollWidth;
      zoom = Math.min(32, Math.max(1, z));
      svg.style.maxWidth = zoom > 1 ? "none" : "";
      svg.style.width = zoom > 1 ? width * zoom + "px" : "";
      svg.style.height = zoom > 1 ? svg.viewBox.baseVal.height + "px" : "";
      svg.setAttribute("preserveAspectRatio", zoom > 1 ? "none" : "xMidYMid");
      box.scrollLeft = middle * box.scrollWidth - box.clientWidth / 2;
    }
    tools(figure, [button("Zoom in", function () { set(zoom * 2); }), button("Zoom out", function () { set(zoom / 2); }),
      button("All", function () { set(1); })]);
  });

  /* Where Chart.js is in the file: the trend and the roofline can be explored; the drawing stays what one sees first. */
  function axis(type, title, more) {
    var style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--ink").trim();
    return Object.assign({ type: type, title: { display: true, text: title, color: ink },
      ticks: { color: ink, callback: function (v) { return short(v); } },
      grid: { color: style.getPropertyValue("--grid").trim() } }, more || {});
  }
  function short(v) {
    var k = v === 0 ? 0 : Math.max(0, Math.min(5, Math.floor(Math.log10(Math.abs(v)) / 3)));
    return +(v / Math.pow(1000, k)).toPrecision(3) + ["", " k", " M", " G", " T", " P"][k];
  }
  function trend(points) {
    return { type: "line",
      data: { datasets: [{ label: "step time, ms", data: points.map(function (p) { return { x: p[0], y: p[1] }; }),
        borderColor: "#0072b2", backgroundColor: "#6db3e3", borderWidth: 1.5, pointRadius: points.length > 200 ? 1 : 2 }] },
      options: { parsing: false, interaction: { mode: "nearest", intersect: false }, plugins: { legend: { display: false } },
        scales: { x: axis("linear", "step"), y: axis("linear", "ms", { beginAtZero: true }) } } };
  }
  function roofline(r) {
    var roof = getComputedStyle(document.documentElement).getPropertyValue("--roof").trim();
    var total = r.points.reduce(function (sum, p) { return sum + p.ns; }, 0) || 1;
    var sets = [{ type: "scatter", label: "ops", data: r.points, borderWidth: 2,
      backgroundColor: r.points.map(function (p) { return p.memory ? "#6db3e3" : "#ffffff"; }),
      borderColor: r.points.map(function (p) { return p.memory ? "#0072b2" : "#009e73"; }),
      pointStyle: r.points.map(function (p) { return p.memory ? "circle" : "rectRot"; }),
      pointRadius: r.points.map(function (p) { return 5 + 11 * Math.sqrt(p.ns / total); }) }];
    r.roofs.forEach(function (f) {
      var to = f.bytes ? Math.min(r.x[1], (r.most || r.y[1]) / f.bytes) : r.x[1];
      sets.push({ type: "line", label: f.name, borderColor: roof, borderWidth: 2, pointRadius: 0,
        data: f.flops ? [{ x: r.x[0], y: f.flops }, { x: to, y: f.flops }]
          : [{ x: r.x[0], y: r.x[0] * f.bytes }, { x: to, y: to * f.bytes }] });
    });
    function say(c) {
      var p = c.raw;
      return (p.name || c.dataset.label) + ": " + short(p.y) + "FLOP/s, " + short(p.x) + " FLOP/byte" +
        (p.ns ? ", " + (p.ns / 1e6).toPrecision(3) + " ms" : "");
    }
    return { type: "scatter", data: { datasets: sets },
      options: { plugins: { legend: { display: false }, tooltip: { callbacks: { label: say } } },
        scales: { x: axis("logarithmic", "FLOP a byte", { min: r.x[0], max: r.x[1] }),
          y: axis("logarithmic", "FLOP/s", { min: r.y[0], max: r.y[1] }) } } };
  }
  function explore(figure, config) {
    var box = null, chart = null;
    var b = button("Explore", function () {
      if (chart) {
        chart.destroy();
        box.remove();
        chart = null;
      } else {
        var canvas = document.createElement("canvas"), c = config();
        box = document.createElement("div");
        box.className = "chart";
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", figure.querySelector("title").textContent);
        box.appendChild(canvas);
        figure.appendChild(box);
        c.options = Object.assign({ animation: false, responsive: true, maintainAspectRatio: false }, c.options);
        chart = new window.Chart(canvas, c);
      }
      figure.classList.toggle("live", chart !== null);
      b.textContent = chart ? "Drawing" : "Explore";
      b.setAttribute("aria-pressed", chart ? "true" : "false");
    });
    b.setAttribute("aria-pressed", "false");
    tools(figure, [b]);
  }
  if (window.Chart) {
    var all = JSON.parse(document.getElementById("chart-data").textContent), makers = { trend: trend, roofline: roofline };
    Object.keys(makers).forEach(function (kind) {
      var figure = document.querySelector("figure[data-kind=" + kind + "]");
      if (figure && all[kind]) explore(figure, function () { return makers[kind](all[kind]); });
    });
  }

  /* On paper everything is open. */
  window.addEventListener("beforeprint", function () {
    each("details", function (d) { d.open = true; });
  });
})();
