// The page of maxmargin explore: what page.js draws, and what a person can say about it.

function requests(path) {
  const answer = async (address, options) => {
    let response;
    try { response = await fetch(address, options); } catch {
      throw new Error("The server does not answer. Everything said so far is saved: start maxmargin explore again and open the new address.");
    }
    const found = await response.json();
    if (!response.ok) throw new Error(found.error);
    return found;
  };
  return {
    ask: (action, body = {}) => answer(`${path}api/${action}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
    view: () => answer(`${path}view`),
    exports: ["labels.csv", "answers.csv", "model.skops"].map((name) => [name, `${path}export/${name}`]),
  };
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function startExplorer(root, server) {
  root.classList.add("mm");
  const bar = el("progress", { max: 1, value: 0 }), told = el("p", {}, "Finding the clusters …");
  root.replaceChildren(el("div", { class: "wrap" }, el("section", { class: "panel" }, told, bar)));
  let state;
  while (!(state = await server.ask("state")).fit) {
    if (state.error) { told.textContent = state.error; bar.remove(); return; }
    bar.value = state.progress ?? 0;
    await pause(300);
  }
  new Explorer(root, await server.view(), server, state);
}

const RELATIONS = { same: "together", different: "apart", unknown: "don't know", merge: "merged", split: "split" };

class Explorer extends Page {
  constructor(root, view, server, state) {
    super(root, Object.assign(view, { names: state.names }), server);
    Object.assign(this, { server, state: { ...state, said: -1 }, selected: new Set(), question: null });
    this.addTools();
    // In a notebook, keys outside the widget are the notebook's.
    const keys = root === document.body ? document : Object.assign(root, { tabIndex: 0 });
    keys.addEventListener("keydown", (event) => { this.key(event); if (keys === root) event.stopPropagation(); });
    this.told(state);
    this.watch();
  }

  // -- talking to the server ------------------------------------------------------------------

  async say(action, body = {}) {
    try {
      const found = await this.server.ask(action, { fit: this.view.fit, ...body });
      if (found.message) this.notice(found.message);
      await this.told(found);
      return found;
    } catch (error) { this.notice(error.message, true); return null; }
  }

  // Something may have been said in another tab, and a fit may have ended.
  async watch() {
    for (let failed = false; this.root.isConnected; await pause(this.state.running ? 400 : 2500)) {
      try { await this.told(await this.server.ask("state")); failed = false; } catch (error) {
        if (!failed) this.notice(error.message, true);
        failed = true;
      }
    }
  }

  async told(state) {
    const before = this.state;
    this.state = state;
    if (state.error && state.error !== before.error) this.notice(state.error, true);
    const writing = this.cards.contains(document.activeElement) && document.activeElement.tagName === "INPUT";
    if (state.fit !== this.view.fit && !writing) {
      const { plane, by } = this;
      const view = await this.server.view();
      if (view.fit !== this.view.fit) { this.update(Object.assign(view, { names: state.names })); Object.assign(this, { plane, by }); }
      this.redraw();
      if (state.moved) await this.showMoved(state.moved);
    } else if (String(state.names) !== String(this.view.names)) {
      this.view.names = state.names;
      if (!writing) this.update(this.view);
    }
    this.showTools();
    if (state.said !== before.said || state.fit !== before.fit) await this.ask();
  }

  async need(rows) {
    const missing = rows.filter((row) => !(row in this.view.cells) && !(row in this.view.pictures));
    if (missing.length) this.keep(await this.server.ask("rows", { rows: missing.slice(0, 100) }));
  }

  keep(found) { for (const key of ["cells", "pictures", "ids"]) Object.assign(this.view[key], found[key]); }

  // -- tools ----------------------------------------------------------------------------------

  addTools() {
    this.tools = el("div", { class: "bar tools" });
    this.progress = el("progress", { max: 1, hidden: true });
    this.moved = el("div");
    this.top.append(el("div", { class: "panel sticky" }, this.tools, this.progress, this.moved));
    this.asking = el("section", { class: "panel question" });
    this.choosing = el("section", { class: "panel", hidden: true });
    this.said = el("details", { class: "panel" });
    this.side.prepend(this.asking, this.choosing);
    this.side.append(this.said);
    this.notices = el("div", { class: "notices", role: "status" });
    this.root.append(this.notices);
    this.legend.after(el("p", { class: "soft" }, el("small", {}, "Wheel: zoom. Drag: move. Click: select a row. Shift and drag: circle rows.")));
  }

  showTools() {
    const { state } = this, k = state.n_clusters;
    const number = (value) => () => this.say("number", { n_clusters: value });
    this.tools.replaceChildren(
      el("button", { id: "fewer", title: "one cluster fewer", disabled: k < 2, onclick: number(k - 1) }, "−"),
      el("b", { id: "number" }, plural(k, "cluster")),
      el("button", { id: "more", title: "one cluster more", onclick: number(k + 1) }, "+"),
      el("button", { id: "refit", class: "main", disabled: state.running, onclick: () => this.say("refit") }, state.running ? "Fitting …" : "Refit", el("kbd", {}, "R")),
      el("button", { id: "undo", disabled: !state.n_answers, onclick: () => this.undo() }, "Undo", el("kbd", {}, "U")),
      el("span", { class: "soft", id: "count" }, `${plural(state.n_answers, "answer")}${state.pending ? `, ${state.pending} since the last fit` : ""}`),
      ...(this.server.exports ? [el("span", { class: "soft" }, "export"), ...this.server.exports.map(([name, address]) => el("a", { href: address, download: name }, name))] : []));
    this.progress.hidden = !state.running;
    if (state.running) this.progress.value = state.progress;
    const line = ([a, b, relation]) => relation.includes("=") ? [relation.startsWith("k=") ? `${relation.slice(2)} clusters` : `row ${a} is in “${decodeURIComponent(relation.slice(5))}”`]
      : [`rows ${a} and ${b}: ${RELATIONS[relation] ?? relation} `, el("button", { class: "chip", title: "take this answer back", onclick: () => this.undo([a, b]) }, "×")];
    this.said.replaceChildren(el("summary", {}, "What was said"), el("ul", { class: "scroll" }, state.answers.map((answer) => el("li", {}, line(answer)))));
  }

  async undo(rows = null) {
    const found = await this.say("undo", rows ? { rows } : {});
    if (found) this.notice(`Taken back: ${found.taken[2].includes("=") ? decodeURIComponent(found.taken[2]) : `rows ${found.taken[0]} and ${found.taken[1]} ${RELATIONS[found.taken[2]] ?? found.taken[2]}`}.`);
  }

  async showMoved({ count: moved, rows }) {
    await this.need(rows).catch(() => {});
    this.moved.replaceChildren(el("p", {}, moved ? `The last fit moved ${plural(moved, "row")} to another cluster.` : "The last fit moved no row."),
      el("div", { class: "rows" }, rows.map((row) => chip(this.view, row, this))));
  }

  notice(text, bad = false) {
    const note = el("div", { class: `panel notice${bad ? " bad" : ""}` }, text);
    this.notices.append(note);
    setTimeout(() => note.remove(), bad ? 9000 : 4000);
  }

  // -- clusters -------------------------------------------------------------------------------

  nameField(view, c) {
    return el("input", { class: "name", value: view.names[c], placeholder: `cluster ${c}`, ariaLabel: `name of cluster ${c}`, maxLength: 100,
      onchange: (event) => event.target.value.trim() && this.say("name", { cluster: c, name: event.target.value }),
      onkeydown: (event) => { if (event.key === "Enter") event.target.blur(); } });
  }

  clusterActions(view, c) {
    const others = view.clusters.map((_, d) => d).filter((d) => d !== c);
    const merge = el("select", { ariaLabel: "merge with", onchange: (event) => this.say("merge", { cluster: c, other: +event.target.value }).then(() => { event.target.value = ""; }) },
      el("option", { value: "" }, "merge with …"), others.map((d) => el("option", { value: d }, nameOf(view, d))));
    return el("div", { class: "bar actions" }, others.length ? merge : null,
      el("button", { onclick: () => this.say("split", { cluster: c }) }, "split"),
      view.names[c] ? null : el("button", { class: "confirm", title: "This is a cluster of its own", onclick: () => this.say("name", { cluster: c, name: `cluster ${c}` }) }, "confirm"));
  }

  clusterButtons(rows, keys) {
    return el("div", { class: "rows" }, this.view.clusters.map((_, c) => el("button", { class: "chip", onclick: () => this.assign(rows, c) },
      el("span", { class: "dot", style: { background: colour(c) } }), ` ${nameOf(this.view, c)}`, keys && c < 10 ? el("kbd", {}, c) : null)));
  }

  async assign(rows, cluster) {
    if (await this.say("assign", { rows, cluster })) { this.selected.clear(); this.showSelected(); }
  }

  // -- questions ------------------------------------------------------------------------------

  async ask() {
    const turn = this.turn = (this.turn ?? 0) + 1;
    let found;
    try { found = await this.server.ask("question"); } catch (error) { this.notice(error.message, true); return; }
    if (turn !== this.turn) return;  // a later answer has its own question
    this.question = found.question;
    this.asking.dataset.rows = found.question?.rows ?? "none";
    if (!found.question) { this.asking.replaceChildren(el("p", { class: "soft" }, "Nothing is left to ask.")); return; }
    this.keep(found);
    const [a, b] = found.question.rows;
    const button = (relation, text, key) => el("button", { class: relation === "same" ? "main" : "", id: `say-${relation}`, onclick: () => this.answer(relation) }, text, el("kbd", {}, key));
    this.asking.replaceChildren(el("h3", {}, "Do these belong together?"), pairPanel(this.view, a, b),
      el("div", { class: "bar" }, button("same", "Together", "S"), button("different", "Apart", "D"), button("unknown", "Don't know", "K")),
      el("p", { class: "soft" }, el("small", {}, `Or: ${rowName(this.view, a)} belongs to`)), this.clusterButtons([a], true));
    this.map.mark([a, b]);
  }

  async answer(relation) {
    const { question } = this;
    if (!question) return;
    this.question = null;
    this.turn += 1;  // a question that is on its way was asked before this answer
    delete this.asking.dataset.rows;
    if (!(await this.say("answer", { rows: question.rows, relation }))) this.ask();
  }

  key(event) {
    if (/INPUT|SELECT|TEXTAREA/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const said = { s: "same", d: "different", k: "unknown" }[event.key.toLowerCase()];
    if (said) this.answer(said);
    else if (event.key === "u") this.undo();
    else if (event.key === "r" && !this.state.running) this.say("refit");
    else if (/^\d$/.test(event.key) && this.question && +event.key < this.view.n_clusters) this.assign([this.question.rows[0]], +event.key);
    else if (event.key === "Escape") { this.selected.clear(); this.showSelected(); }
  }

  // -- rows that a person selects -------------------------------------------------------------

  pick(row) {
    if (!this.selected.delete(row)) this.selected.add(row);
    this.hover(row);
    this.showSelected();
  }

  lassoed(rows) { rows.forEach((row) => this.selected.add(row)); this.showSelected(); }

  showSelected() {
    const rows = [...this.selected], pair = (relation) => this.say("answer", { rows, relation }).then((done) => { if (done) { this.selected.clear(); this.showSelected(); } });
    this.choosing.hidden = !rows.length;
    this.map.mark(rows);
    this.choosing.replaceChildren(el("h3", {}, `${plural(rows.length, "row")} selected`), el("div", { class: "rows" }, rows.slice(0, 12).map((row) => chip(this.view, row, { hover: (r) => this.hover(r), pick: (r) => this.pick(r) }))),
      rows.length === 2 ? el("div", { class: "bar" }, el("button", { onclick: () => pair("same") }, "together"), el("button", { onclick: () => pair("different") }, "apart")) : null ?? "",
      el("p", { class: "soft" }, el("small", {}, rows.length === 1 ? "It belongs to" : "They belong to")), this.clusterButtons(rows, false),
      el("button", { onclick: () => { this.selected.clear(); this.showSelected(); } }, "clear", el("kbd", {}, "Esc")));
  }
}
