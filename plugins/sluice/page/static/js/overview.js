import * as api from "./api.js";
import { PipelineCard } from "./card.js";
import { asOf, empty, h, loading, replace } from "./dom.js";
import { needing as urgent } from "./findings.js";
import { legendButton, legendPopover } from "./labels.js";
import { rangePicker } from "./range.js";
import { keep } from "./refresh.js";
import { current, format, onRoute, setQuery } from "./router.js";

const NOTHING = ["There is no pipeline that you may see.", "Put a file into include/pipelines, or name its folder in SLUICE_PIPELINES."];

export async function overviewView(view, range) {
  const asked = { from: range.from ?? "48h", to: range.to ?? "now" };
  const page = new OverviewPage(asked);
  replace(view, page.bar, page.problems, page.list, page.legend);
  const forget = onRoute(() => page.filter());
  const stop = await keep(() => page.refresh(), (error) => replace(page.problems, h("p", { class: "error", role: "alert" }, error.message)));
  return () => {
    forget();
    page.stop();
    stop();
  };
}

class OverviewPage {
  constructor(asked) {
    this.asked = asked;
    this.cards = new Map();
    this.problems = h("div", { "aria-live": "polite" });
    this.list = h("div", { class: "pipelines" }, [1, 2, 3].map(() => h("div", { class: "card pipeline" }, loading("132px", "Loading the pipelines"))));
    this.title = h("h1", {}, "Pipelines");
    this.legend = h("div");
    this.needing = h("span", { class: "segments", role: "group", "aria-label": "Which pipelines" });
    this.segments(null);
    this.words = h("input", { type: "search", class: "words", "aria-label": "Pipelines whose name has", placeholder: "Name", value: current().query.q ?? "", oninput: (event) => setQuery({ q: event.target.value }) });
    this.bar = h("div", { class: "bar" }, h("div", { class: "bar" }, this.title, this.needing, this.words), h("div", { class: "bar" }, rangePicker(asked, { view: "overview" }), legendButton()));
  }

  async refresh() {
    const data = await api.overview(this.asked);
    this.data = data;
    asOf(data.now, data.user);
    replace(this.problems, (data.broken_files ?? []).map((line) => h("p", { class: "error" }, line)));
    if (!this.legend.childElementCount) replace(this.legend, legendPopover(data.legend));
    this.show(data);
    return data.pipelines.some((row) => row.cells.some((cell) => cell.running));
  }

  show(data) {
    const names = new Set(data.pipelines.map((row) => row.pipeline));
    for (const [name, card] of this.cards) if (!names.has(name)) this.drop(name, card);
    const first = this.cards.size === 0;
    for (const row of data.pipelines) {
      const card = this.cards.get(row.pipeline) ?? new PipelineCard(row.pipeline);
      this.cards.set(row.pipeline, card);
      card.show(row, data);
    }
    this.arrange(data.pipelines, first);
    this.filter();
  }

  // What somebody points at, or has the focus in, does not move away.
  arrange(rows, first) {
    const wanted = rows.map((row) => this.cards.get(row.pipeline).element);
    const there = [...this.list.children];
    if (!first && wanted.length === there.length) {
      if (wanted.every((element, n) => element === there[n])) return;
      if (this.list.matches(":hover") || this.list.contains(document.activeElement)) return;
    }
    replace(this.list, wanted.length ? wanted : empty(...NOTHING));
  }

  drop(name, card) {
    card.stop();
    this.cards.delete(name);
  }

  filter() {
    if (!this.data) return;
    const { q = "", show = "" } = current().query;
    const rows = this.data.pipelines;
    const needing = rows.filter((row) => urgent(row.findings).length);
    for (const row of rows) {
      const hidden = !row.pipeline.includes(q) || (show === "needing" && !needing.includes(row));
      this.cards.get(row.pipeline).element.hidden = hidden;
    }
    this.segments([rows.length, needing.length]);
    this.words.hidden = rows.length < 2 && !q;
  }

  // They have their place before they have their numbers.
  segments(numbers) {
    const { q = "", show = "", from, to } = current().query;
    const link = (name, value, number) => h("a", { class: "button", href: format({ view: "overview", query: { from, to, q, show: value } }), "aria-current": show === value ? "true" : null }, `${name} `, h("span", { class: "counted" }, numbers ? String(number) : ""));
    replace(this.needing, link("All", "", numbers?.[0]), link("Needs attention", "needing", numbers?.[1]));
  }

  stop() {
    for (const card of this.cards.values()) card.stop();
  }
}
