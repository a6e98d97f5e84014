// Draws a view (see _view.py) into an element. Values reach the page as text nodes and attributes
// only, never as markup, so that a cell with "<script>" stays text.

const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8C6D31",
  "#999999", "#6A3D9A", "#B15928"];

function colour(j) {
  return j < 0 ? "#88888880" : j < COLOURS.length ? COLOURS[j] : `hsl(${(j * 137.5) % 360} 55% 50%)`;
}

function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value == null) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(node.style, value);
    else if (key === "class") node.className = value;
    else if (key in node) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child != null));
  return node;
}

function svg(tag, props = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(props)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const count = (value) => value.toLocaleString("en");
const percent = (value) => `${(100 * value).toFixed(value > 0.0995 || value === 0 ? 0 : 1)} %`;
const thousandths = (value) => value ? `${(100 * value).toFixed(1)} %` : "";
// Whole numbers of up to seven digits are shown in full.
const rounded = (value) => Math.abs(value) >= 1e4 && Math.abs(value) < 1e7 ? Math.round(value) : +value.toPrecision(5);
const short = (value) => value == null ? "–" : typeof value === "number" ? String(rounded(value)) : String(value);
const signed = (value) => value == null ? "–" : `${value <= -0.05 ? "−" : value >= 0.05 ? "+" : ""}${Math.abs(value).toFixed(1)}`;
const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

// -- the map: points on a canvas ------------------------------------------------------------------

class ScatterMap {
  constructor(host, { hover, pick, lasso }) {
    this.canvas = el("canvas", { tabIndex: 0, role: "img", ariaLabel: "map of the rows" });
    host.append(this.canvas);
    Object.assign(this, { host, hover, pick, lasso, only: null, marked: new Set(), path: null });
    this.home();
    new ResizeObserver(() => this.draw()).observe(host);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.listen();
  }

  home() { this.zoom = 1; this.shift = [0, 0]; }

  show(points, plane, labels) {
    if (this.plane !== plane) this.home();
    Object.assign(this, { points, plane, labels });
    const range = (values) => values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    this.ranges = [range(plane.x), range(plane.y)];
    this.draw();
  }

  place(i) {
    const { width, height } = this.host.getBoundingClientRect();
    const [[x0, x1], [y0, y1]] = this.ranges, pad = 24;
    const u = (this.plane.x[i] - x0) / (x1 - x0 || 1), v = 1 - (this.plane.y[i] - y0) / (y1 - y0 || 1);
    return [pad + u * (width - 2 * pad), pad + v * (height - 2 * pad)]
      .map((at, d) => (at - [width, height][d] / 2) * this.zoom + [width, height][d] / 2 + this.shift[d]);
  }

  draw() {
    if (!this.plane) return;
    const { width, height } = this.host.getBoundingClientRect(), scale = devicePixelRatio || 1;
    this.canvas.width = width * scale; this.canvas.height = height * scale;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(this.host), n = this.plane.x.length;
    const size = Math.max(1.6, Math.min(4.2, 150 / Math.sqrt(n))) * Math.sqrt(this.zoom) ** 0.7;
    this.places = Array.from({ length: n }, (_, i) => this.place(i));
    const order = [...Array(n).keys()].sort((a, b) => this.labels[a] - this.labels[b]);
    for (const i of order) {
      const faint = this.only != null && this.labels[i] !== this.only;
      pen.globalAlpha = faint ? 0.08 : 0.78;
      pen.fillStyle = colour(this.labels[i]);
      pen.beginPath();
      pen.arc(...this.places[i], size * (0.55 + 0.85 * this.points.level[i]), 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = style.getPropertyValue("--ink"); pen.lineWidth = 2;
    for (const i of this.marked) { pen.beginPath(); pen.arc(...this.places[i], size + 5, 0, 7); pen.stroke(); }
    if (this.path) {
      pen.setLineDash([5, 4]); pen.beginPath();
      this.path.forEach((at) => pen.lineTo(...at)); pen.closePath(); pen.stroke();
    }
    pen.fillStyle = style.getPropertyValue("--soft"); pen.font = "12px system-ui"; pen.textAlign = "center";
    pen.fillText(this.plane.axes[0], width / 2, height - 4);
    pen.save(); pen.translate(11, height / 2); pen.rotate(-Math.PI / 2); pen.fillText(this.plane.axes[1], 0, 0); pen.restore();
  }

  nearest([x, y]) {
    let best = -1, least = 14 ** 2;
    (this.places || []).forEach(([a, b], i) => {
      const distance = (a - x) ** 2 + (b - y) ** 2;
      if (distance < least) { best = i; least = distance; }
    });
    return best;
  }

  mark(rows) {
    const wanted = new Set(rows);
    this.marked = new Set(this.points.row.flatMap((row, i) => wanted.has(row) ? [i] : []));
    this.draw();
  }

  focus(cluster) { this.only = cluster; this.draw(); }

  listen() {
    const at = (event) => { const box = this.canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    let start = null, before = null;
    const on = (name, act, options) => this.canvas.addEventListener(name, act, options);
    on("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      start = at(event); before = [...this.shift];
      if (event.shiftKey && this.lasso) this.path = [start];
    });
    on("pointermove", (event) => {
      const now = at(event);
      if (this.path) { this.path.push(now); this.draw(); }
      else if (start) { this.shift = [before[0] + now[0] - start[0], before[1] + now[1] - start[1]]; this.draw(); }
      else { const i = this.nearest(now); if (i >= 0) this.hover(this.points.row[i]); }
    });
    on("pointerup", (event) => {
      const now = at(event);
      if (this.path) { const path = this.path; this.path = null; this.lasso(this.inside(path), event); this.draw(); }
      else if (start && Math.hypot(now[0] - start[0], now[1] - start[1]) < 4) {
        const i = this.nearest(now);
        if (i >= 0) this.pick(this.points.row[i], event);
      }
      start = null;
    });
    on("wheel", (event) => {
      event.preventDefault();
      const box = this.host.getBoundingClientRect(), now = at(event), by = Math.exp(-event.deltaY / 400);
      const zoom = Math.min(60, Math.max(1, this.zoom * by)), ratio = zoom / this.zoom;
      this.shift = this.shift.map((s, d) => { const c = [box.width, box.height][d] / 2; return (s + c - now[d]) * ratio + now[d] - c; });
      if (zoom === 1) this.shift = [0, 0];
      this.zoom = zoom; this.draw();
    }, { passive: false });
    on("dblclick", () => { this.home(); this.draw(); });
  }

  inside(path) {
    const within = ([x, y]) => path.reduce((odd, [a, b], i) => {
      const [c, d] = path[(i + path.length - 1) % path.length];
      return (b > y) !== (d > y) && x < (c - a) * (y - b) / (d - b) + a ? !odd : odd;
    }, false);
    return this.points.row.filter((_, i) => within(this.places[i]));
  }
}

// -- rows -----------------------------------------------------------------------------------------

const nameOf = (view, c) => c < 0 ? "none" : view.names?.[c] || `cluster ${c}`;
const rowName = (view, row) => view.ids[row] ?? `row ${row}`;

function picture(view, row, large = false) {
  const source = view.pictures[row];
  return source ? el("img", { class: large ? "row large" : "row", src: source, alt: rowName(view, row) }) : null;
}

function chip(view, row, page) {
  const image = picture(view, row);
  return el("button", { class: image ? "chip pic" : "chip", title: rowName(view, row), "data-row": row,
    onmouseenter: () => page.hover(row), onfocus: () => page.hover(row), onclick: () => page.pick(row) },
  image ?? rowName(view, row));
}

function rowPanel(view, row) {
  const i = view.points.row.indexOf(row), cells = view.cells[row];
  const label = i >= 0 ? view.points.label[i] : null;
  return [
    el("h3", {}, label == null ? null : el("span", { class: "dot", style: { background: colour(label) } }), " ", rowName(view, row)),
    label == null ? null : el("p", { class: "soft" }, `${nameOf(view, label)} · ${view.measure} ${percent(view.points.level[i])}`),
    picture(view, row, true),
    cells ? el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, view.columns.map((name, j) => el("tr", {}, el("th", {}, name), el("td", { class: typeof cells[j] === "number" ? "num" : "" }, short(cells[j]))))))) : null,
  ];
}

// Two rows side by side, the columns that differ most first.
function pairPanel(view, a, b) {
  const heads = el("div", { class: "pair" }, [a, b].map((row) => el("div", {}, picture(view, row, true), el("div", { class: "soft" }, rowName(view, row)))));
  const [left, right] = [view.cells[a], view.cells[b]];
  if (!left || !right || !view.columns.length) return heads;
  const gap = (j) => typeof left[j] === "number" && typeof right[j] === "number" && view.spreads[j]
    ? Math.abs(left[j] - right[j]) / view.spreads[j] : left[j] === right[j] ? 0 : 1;
  const order = [...view.columns.keys()].sort((i, j) => gap(j) - gap(i));
  const cell = (value) => el("td", { class: typeof value === "number" ? "num" : "" }, short(value));
  return el("div", {}, heads, el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, order.map((j) =>
    el("tr", { class: gap(j) >= 1 ? "differs" : "" }, el("th", {}, view.columns[j]), cell(left[j]), cell(right[j])))))));
}

// -- parts of the page ----------------------------------------------------------------------------

// A name that breaks at its separators, and within words only if they are very long.
function columnName(name) {
  const parts = name.split(/(?<=[_.\-/])/);
  return el("td", { style: { overflowWrap: Math.max(...parts.map((part) => part.length)) > 18 ? "anywhere" : "normal" } },
    parts.flatMap((part) => [part, el("wbr")]));
}

const MEANINGS = {
  difference: "difference of the means in standard deviations",
  here: "median, or typical values, of the cluster",
  rest: "the same of all other rows",
  importance: "share of the cluster's rows that move if the column is shuffled",
};

function differenceCell(value, c, widest) {
  const length = 50 * Math.abs(value ?? 0) / widest;
  const bar = el("i", { style: { background: colour(c), width: `${length}%`, left: `${value < 0 ? 50 - length : 50}%` } });
  return el("td", { class: "line" }, el("div", { class: "difference" }, el("div", { class: "axis" }, bar), signed(value)));
}

function featureTable(view, cluster, c) {
  if (!cluster.features.length) return null;
  const widest = Math.max(...view.clusters.flatMap((o) => o.features.map((f) => Math.abs(f.difference ?? 0))), 1e-9);
  const heads = ["column", ...Object.keys(MEANINGS)];
  const table = el("table", { class: "features" },
    el("thead", {}, el("tr", {}, heads.map((h) => el("th", { title: MEANINGS[h], class: h === "importance" ? "num" : "" }, h)))),
    el("tbody", {}, cluster.features.map((f) => el("tr", {}, columnName(f.feature), differenceCell(f.difference, c, widest),
      ...[f.typical, f.rest].map((text) => el("td", { class: /^[-+.\de]*$/.test(text) ? "line" : "" }, text)),
      el("td", { class: "num" }, f.importance == null ? "–" : f.importance < 0.01 ? "below 1 %" : percent(f.importance))))));
  // A pixel says little by itself.
  return view.columns.length ? table : el("details", {}, el("summary", {}, "columns that set it apart"), table);
}

function clusterCard(view, c, page) {
  const cluster = view.clusters[c], share = cluster.size / view.n_rows;
  const rows = (title, list) => list.length ? [el("small", { class: "soft" }, title), el("div", { class: "rows" }, list.map((row) => chip(view, row, page)))] : null;
  const name = page.act ? page.nameField(view, c) : el("span", {}, nameOf(view, c));
  return el("section", { class: "panel card", "data-cluster": c, onmouseenter: () => page.map.focus(c), onmouseleave: () => page.map.focus(null) },
    el("h3", {}, el("span", { class: "dot", style: { background: colour(c) } }), name),
    el("div", { class: "soft" }, `${plural(cluster.size, "row")} (${percent(share)})`, cluster.level == null ? "" : ` · mean ${view.measure} ${percent(cluster.level)}`),
    el("div", { class: "meter" }, el("i", { style: { background: colour(c), width: `${100 * share}%` } })),
    cluster.description ? el("p", {}, cluster.description) : null,
    rows("most certain", cluster.certain), rows("least certain", cluster.unsure),
    page.act ? page.clusterActions(view, c) : null, featureTable(view, cluster, c));
}

function heatTable(view, title, values, told) {
  const most = (row) => Math.max(row.reduce((a, b) => a + b, 0), 1e-9);
  return el("div", { class: "scroll" }, el("table", { class: "heat" },
    el("thead", {}, el("tr", {}, el("th", {}, title), values.map((_, c) => el("th", {}, nameOf(view, c))))),
    el("tbody", {}, values.map((row, c) => el("tr", {}, el("th", {}, nameOf(view, c)), row.map((value, d) =>
      el("td", { style: { background: `color-mix(in srgb, ${colour(c)} ${Math.round(70 * value / most(row))}%, transparent)` } }, told(value))))))));
}

function svgText(text, props) {
  const node = svg("text", { "text-anchor": "middle", ...props });
  node.textContent = text;
  return node;
}

// A curve; the marks are classes of circles, each with the x where it is.
function curve(xs, ys, { marks = {}, label = "", unit = "", from = null } = {}) {
  const width = 380, height = 200, left = 68, low = 42, top = 14;
  const known = ys.filter((y) => y != null), [y0, y1] = [from ?? Math.min(...known), Math.max(...known)];
  const x = (v) => left + (v - xs[0]) / (xs.at(-1) - xs[0] || 1) * (width - left - 16);
  const y = (v) => top + (1 - (v - y0) / (y1 - y0 || 1)) * (height - low - top);
  const points = xs.flatMap((v, i) => ys[i] == null ? [] : [[x(v), y(ys[i])]]);
  const digits = Math.max(0, 2 - Math.ceil(Math.log10(y1 - y0 || 1)));
  const lines = [y0, (y0 + y1) / 2, y1].filter((v, i, all) => all.indexOf(v) === i);
  const step = Math.max(1, Math.ceil(xs.length / 10)), ticks = xs.filter((_, i) => i % step === 0);
  const middle = (top + height - low) / 2;
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": label },
    ...lines.map((v) => svg("line", { class: "grid-line", x1: left, x2: width - 16, y1: y(v), y2: y(v) })),
    ...lines.map((v) => svgText(+v.toFixed(digits), { x: left - 8, y: y(v) + 4, "text-anchor": "end" })),
    ...ticks.map((v) => svgText(v, { x: x(v), y: height - low + 18 })),
    svgText(label, { x: (left + width) / 2, y: height - 6 }),
    svgText(unit, { transform: `translate(12 ${middle}) rotate(-90)` }),
    svg("polyline", { class: "curve", points: points.map((p) => p.join()).join(" ") }),
    ...(points.length <= 60 ? points.map(([a, b]) => svg("circle", { class: "knot", cx: a, cy: b, r: 3 })) : []),
    ...Object.entries(marks).filter(([, at]) => xs.includes(at)).map(([name, at]) =>
      svg("circle", { class: name, cx: x(at), cy: y(ys[xs.indexOf(at)] ?? y0), r: name === "ring" ? 8 : 5 })));
}

function panel(title, ...content) {
  return el("section", { class: "panel" }, el("h3", {}, title), content);
}

// A table with a column for each cluster takes the whole width if there are many.
function heatPanel(view, title, about, values, told) {
  const part = panel(title, el("p", { class: "soft" }, about), heatTable(view, "", values, told));
  part.classList.toggle("wide", view.n_clusters > 4);
  return part;
}

function numberPanel(view) {
  const { k, height, unit, what, chosen, statement } = view.number;
  if (height.filter((y) => y != null).length < 2) return panel("The number of clusters", el("p", {}, statement));
  const marks = { used: view.n_clusters, ring: chosen };
  const legend = [["used", "in use"], ["ring", "preferred by the data"]].map(([name, told]) => el("span", {},
    svg("svg", { width: 18, height: 18 }, svg("circle", { class: name, cx: 9, cy: 9, r: name === "ring" ? 7 : 5 })),
    `${marks[name]}: ${told}${k.includes(marks[name]) ? "" : " (outside the chart)"}`));
  return panel("The number of clusters", el("p", {}, statement),
    curve(k, height, { marks, unit, label: "number of clusters k", from: 0 }),
    el("div", { class: "legend" }, legend), el("p", { class: "soft" }, el("small", {}, what)));
}

function sureness(view) {
  const parts = [];
  if (view.sentences.length) parts.push(panel("In words", el("ul", {}, view.sentences.map((line) => el("li", {}, line)))));
  if (view.number) parts.push(numberPanel(view));
  if (view.confusion && view.n_clusters <= 30) parts.push(heatPanel(view, "Confusion under resampling",
    "Left: the cluster of the rows. Top: the mean probability of each cluster for these rows.", view.confusion, thousandths));
  if (view.runner_up && view.n_clusters <= 30) parts.push(heatPanel(view, "The runner-up answer",
    `The second-best clustering is ${percent(view.runner_up.shortfall)} worse by the objective. If this is near 0, both are about equally good: look at both (the map can be coloured by the runner-up); a few known labels or constraints decide between them. The adjusted Rand index between the two is ${view.runner_up.agreement}. Number of rows by their cluster (left) and by their cluster in the runner-up (top):`,
    view.runner_up.counts, count));
  if (view.history) parts.push(panel(view.history.title, el("p", { class: "soft" }, view.history.told),
    curve([...view.history.values.keys()], view.history.values, { label: "iteration" })));
  return parts;
}

// -- the page -------------------------------------------------------------------------------------

class Page {
  constructor(root, view, act = null) {
    Object.assign(this, { root, act, plane: 0, by: "answer" });
    root.classList.add("mm");
    this.build();
    this.update(view);
  }

  build() {
    this.head = el("header");
    this.choices = el("div", { class: "bar" });
    this.legend = el("div", { class: "legend" });
    this.caption = el("p", { class: "soft" });
    this.aside = el("aside", { class: "panel row-panel" }, el("p", { class: "soft" }, "Point at a row to see its values."));
    this.cards = el("div", { class: "grid cards" });
    this.sure = el("div", { class: "grid" });
    this.settings = el("div");
    this.meanings = el("p", { class: "soft" }, el("small", {}, `In the tables: ${Object.entries(MEANINGS).map((parts) => parts.join(" = ")).join("; ")}.`));
    const host = el("div", { class: "map" });
    this.side = el("div", { class: "side" }, this.aside);
    this.top = el("div", {}, this.head);
    this.root.replaceChildren(el("div", { class: "wrap" }, this.top,
      el("div", { class: "split" }, el("section", { class: "panel" }, this.choices, host, this.legend, this.caption), this.side),
      el("h2", {}, "Clusters"), this.cards, this.meanings, el("h2", {}, "How sure is this?"), this.sure,
      el("h2", {}, "Settings"), this.settings));
    this.map = new ScatterMap(host, { hover: (row) => this.hover(row), pick: (row, event) => this.pick(row, event), lasso: this.act ? (rows) => this.lassoed(rows) : null });
  }

  update(view) {
    this.view = view;
    const shown = view.points.row.length;
    this.head.replaceChildren(el("h1", {}, view.title), el("div", { class: "facts" },
      [...[[view.n_rows, "row"], [view.n_columns, "column"], [view.n_clusters, "cluster"]].map(([value, noun]) => plural(value, noun).split(" ")),
        view.stability && [view.stability.value.toFixed(2), `stability (${view.stability.word})`], shown < view.n_rows ? [count(shown), "rows shown"] : null]
        .filter(Boolean).map(([value, what]) => el("span", {}, el("b", {}, value), ` ${what}`))));
    this.legend.replaceChildren(...view.clusters.map((_, c) => el("span", { onmouseenter: () => this.map.focus(c), onmouseleave: () => this.map.focus(null) },
      el("span", { class: "dot", style: { background: colour(c) } }), nameOf(view, c))));
    this.cards.replaceChildren(...view.clusters.map((_, c) => clusterCard(view, c, this)));
    this.meanings.hidden = !view.clusters.some((cluster) => cluster.features.length);
    this.sure.replaceChildren(...sureness(view));
    this.settings.replaceChildren(el("details", { class: "panel" }, el("summary", {}, "Parameters of the model"),
      el("table", {}, el("tbody", {}, view.settings.map(([name, value]) => el("tr", {}, el("th", {}, name), el("td", {}, value)))))));
    this.redraw();
  }

  redraw() {
    const { points, runner_up: other } = this.view;
    if (this.by === "runner-up" && !other) this.by = "answer";
    const choice = (text, on, act) => el("button", { class: on ? "on" : "", onclick: () => { act(); this.redraw(); } }, text);
    this.choices.replaceChildren(...points.maps.map(({ name }, i) => choice(name, this.plane === i, () => { this.plane = i; })),
      ...(other ? [el("span", { class: "soft" }, "coloured by"), ...["answer", "runner-up"].map((by) => choice(by, this.by === by, () => { this.by = by; }))] : []));
    const plane = points.maps[Math.min(this.plane, points.maps.length - 1)];
    this.caption.replaceChildren(el("small", {}, `Every dot is a row, in the colour of its cluster${this.view.n_clusters > 1 ? `; small dots have a low ${this.view.measure}` : ""}. ${plane.told}`));
    this.map.show(points, plane, this.by === "answer" ? points.label : other.label);
  }

  hover(row) {
    this.aside.replaceChildren(...rowPanel(this.view, row).filter((part) => part != null));
    this.map.mark(this.selected?.size ? [...this.selected, row] : [row]);
  }

  pick(row) { this.hover(row); }
}
