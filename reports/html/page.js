/* What all scripts of the page share, and what needs no drawing: tables that sort and filter, charts of Chart.js. */
(function () {
  "use strict";
  function each(selector, f, root) {
    Array.prototype.forEach.call((root || document).querySelectorAll(selector), f);
  }
  /* An element with attributes and children: texts, elements, or "" for none. */
  function element(name, attributes, children) {
    var e = document.createElement(name);
    Object.keys(attributes || {}).forEach(function (key) { e.setAttribute(key, attributes[key]); });
    [].concat(children === undefined ? [] : children).forEach(function (child) { if (child !== "") e.append(child); });
    return e;
  }
  function button(text, click) {
    var b = element("button", { type: "button" }, text);
    b.addEventListener("click", click);
    return b;
  }
  function tools(figure, list) {
    var bar = figure.querySelector(".tools") || element("div", { "class": "tools" });
    list.forEach(function (b) { bar.appendChild(b); });
    figure.insertBefore(bar, figure.querySelector(".scroll"));
    return bar;
  }
  /* "1.23 ms"; with a resolution as many digits as show it. */
  function time(ns, resolution) {
    var size = Math.abs(ns), unit = [1e9, "s"];
    if (size < 1e3) unit = [1, "ns"]; else if (size < 1e6) unit = [1e3, "\u00b5s"]; else if (size < 1e9) unit = [1e6, "ms"];
    var value = ns / unit[0];
    return (resolution ? value.toFixed(Math.max(0, Math.min(9, Math.ceil(Math.log10(unit[0] / resolution) - 0.001)))) : +value.toPrecision(3)) +
      " " + unit[1];
  }
  /* A round distance that divides `span` into about `parts`. */
  function tick(span, parts) {
    var raw = span / parts, power = Math.pow(10, Math.floor(Math.log10(raw)));
    return power * ([1, 2, 5, 10].find(function (m) { return raw / power <= m; }));
  }
  function short(v) {
    var k = v === 0 ? 0 : Math.max(0, Math.min(5, Math.floor(Math.log10(Math.abs(v)) / 3)));
    return +(v / Math.pow(1000, k)).toPrecision(3) + [" ", " k", " M", " G", " T", " P"][k];
  }
  var all = JSON.parse(document.getElementById("chart-data").textContent);
  window.tacho = { data: all, each: each, element: element, button: button, tools: tools, time: time, tick: tick, short: short };

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
  var FILTER_LEAST = 12;
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
    if (table.tBodies[0].rows.length < FILTER_LEAST) return;
    var input = element("input", { type: "search", placeholder: "filter rows", "aria-label": "Filter rows: " + table.caption.textContent });
    input.addEventListener("input", function () {
      var want = input.value.trim().toLowerCase();
      Array.prototype.forEach.call(table.tBodies[0].rows, function (r) { r.hidden = r.textContent.toLowerCase().indexOf(want) < 0; });
    });
    table.parentNode.parentNode.insertBefore(element("div", { "class": "tools" }, input), table.parentNode);
  });

  /* Where Chart.js is in the file: the trend and the roofline can be explored; the drawing stays what one sees first. */
  function axis(type, title, more) {
    var style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--ink").trim();
    return Object.assign({ type: type, title: { display: true, text: title, color: ink },
      ticks: { color: ink, callback: function (v) { return short(v); } },
      grid: { color: style.getPropertyValue("--grid").trim() } }, more || {});
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
      return (p.name || c.dataset.label) + ": " + short(p.y) + "FLOP/s, " + short(p.x) + "FLOP/byte" +
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
    var makers = { trend: trend, roofline: roofline };
    Object.keys(makers).forEach(function (kind) {
      var figure = document.querySelector("figure[data-kind=" + kind + "]");
      if (figure && all[kind]) explore(figure, function () { return makers[kind](all[kind]); });
    });
  }
})();
