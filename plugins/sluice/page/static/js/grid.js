// The grid of hours or days: one tab stop, arrow keys inside, a sign in every cell.
import { h, replace } from "./dom.js";
import { count, duration, sliceName } from "./format.js";

const WEEKS_FROM = 63; // more days than this are shown as a calendar, a column per week

export function cellLabel(pipeline, cell, legend) {
  const meaning = legend.get(cell.cell)?.meaning ?? cell.cell;
  const name = cell.id.includes("T") ? sliceName(cell.id) : cell.id;
  const parts = [`${pipeline}, ${name}: ${cell.cell} (${meaning})`];
  const counts = Object.entries(cell.counts ?? {});
  if (counts.length > 1) parts.push(counts.map(([state, number]) => `${number} ${state}`).join(", "));
  if (cell.running) parts.push(/^\d+$/.test(cell.running) ? `${cell.running} being worked on` : `now ${cell.running}`);
  if (cell.missing?.length) parts.push(`missing from ${cell.missing.join(", ")}`);
  if (cell.anomalies) parts.push(`${cell.anomalies} anomalies`);
  if (cell.read) parts.push(`${count(cell.read)} records, ${count(cell.rows)} rows loaded`);
  if (cell.rejected) parts.push(`${count(cell.rejected)} rejected`);
  if (cell.late) parts.push(`${count(cell.late)} later than grace`);
  return parts.join("; ");
}

// A year of ten pipelines has thousands of cells: what they share is made once, and listened to by the grid.
const CELL = h("div", { role: "gridcell", tabindex: "-1" });

// A tooltip is made when it is shown.
function tell(button) {
  if (button) button.title = button.ariaLabel;
}

export class Grid {
  constructor(open) {
    this.open = open;
    this.element = h("div", { role: "grid", class: "grid", "aria-label": "State of each hour by pipeline" });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("focusin", (event) => this.stay(event.target));
    this.element.addEventListener("click", (event) => this.click(event.target.closest(".cell")));
    this.element.addEventListener("pointerover", (event) => tell(event.target.closest(".cell")));
    this.shape = "";
    this.cells = new Map();
  }

  // Cells stay the same elements while the range stays: focus survives a refresh.
  show(data) {
    this.legend = new Map(data.legend.map((entry) => [entry.cell, entry]));
    const shape = JSON.stringify([data.zoom, data.pipelines.map((p) => [p.pipeline, p.error, p.can_start, p.cells.map((c) => c.id)])]);
    if (shape !== this.shape) this.build(data);
    else for (const row of data.pipelines) for (const cell of row.cells) this.paint(this.cells.get(`${row.pipeline} ${cell.id}`), row.pipeline, cell);
    this.shape = shape;
    for (const row of data.pipelines) this.facts(row);
  }

  build(data) {
    const focused = document.activeElement?.dataset?.key;
    this.cells.clear();
    const weeks = data.zoom === "days" && (data.pipelines[0]?.cells.length ?? 0) >= WEEKS_FROM;
    this.element.classList.toggle("weeks", weeks);
    this.element.classList.toggle("days", data.zoom === "days" && !weeks);
    replace(this.element, weeks ? this.months(data) : this.header(data), data.pipelines.map((row) => this.row(row, weeks)));
    const first = this.cells.get(focused) ?? this.cells.values().next().value;
    if (first) first.tabIndex = 0;
    if (focused) this.cells.get(focused)?.focus();
  }

  header(data) {
    const cells = data.pipelines.find((row) => row.cells.length)?.cells ?? [];
    const marks = cells.map((cell, index) => h("span", { class: "mark" }, mark(cell.id, index, cells.length)));
    return h("div", { class: "row head", "aria-hidden": "true" }, h("span", { class: "name" }, "UTC"), h("div", { class: "cells", css: { "--n": String(cells.length) } }, marks));
  }

  months(data) {
    const days = data.pipelines.find((row) => row.cells.length).cells.map((cell) => cell.id);
    const lead = weekday(days[0]);
    const marks = Array.from({ length: Math.ceil((lead + days.length) / 7) }, (_, week) => {
      const first = days.slice(Math.max(0, week * 7 - lead), week * 7 - lead + 7).find((day) => day.endsWith("-01"));
      return h("span", { class: "mark" }, first ? first.slice(0, 7) : "");
    });
    return h("div", { class: "row head", "aria-hidden": "true" }, h("span", { class: "name" }, "UTC, a column per week"), h("div", { class: "cells" }, marks));
  }

  row(row, weeks) {
    const cells = row.cells.map((cell) => {
      const button = CELL.cloneNode();
      button.dataset.key = `${row.pipeline} ${cell.id}`;
      this.paint(button, row.pipeline, cell);
      this.cells.set(button.dataset.key, button);
      return button;
    });
    const lead = weeks && row.cells.length ? weekday(row.cells[0].id) : 0;
    const blanks = Array.from({ length: lead }, () => h("span", { class: "blank", "aria-hidden": "true" }));
    const body = row.error ? h("p", { class: "error" }, row.error) : h("div", { class: "cells", role: "presentation", css: { "--n": String(cells.length) } }, blanks, cells);
    return h(
      "div", { class: "row", role: "row", data: { pipeline: row.pipeline } },
      h("div", { class: "name", role: "rowheader" }, h("a", { href: `#/p/${encodeURIComponent(row.pipeline)}` }, row.pipeline), h("span", { class: "facts" })),
      body,
    );
  }

  facts(row) {
    const place = this.element.querySelector(`[data-pipeline="${CSS.escape(row.pipeline)}"] .facts`);
    const behind = row.behind_seconds === null ? "nothing complete here" : `complete until ${duration(row.behind_seconds)} ago`;
    replace(place, h("span", {}, behind), row.paused && h("span", { class: "badge" }, "paused"), row.anomalies > 0 && h("span", { class: "badge bad" }, `${row.anomalies} ${row.anomalies === 1 ? "anomaly" : "anomalies"}`));
  }

  paint(button, pipeline, cell) {
    const label = cellLabel(pipeline, cell, this.legend);
    if (button.ariaLabel === label) return;
    button.className = `cell ${cell.cell}${cell.running ? " running" : ""}`;
    button.textContent = this.legend.get(cell.cell)?.sign ?? "";
    button.ariaLabel = label;
    if (button.title) tell(button);
  }

  click(button) {
    if (!button) return;
    const [pipeline, id] = button.dataset.key.split(" ");
    this.open(pipeline, id);
  }

  stay(target) {
    if (!target.dataset?.key) return;
    for (const cell of this.element.querySelectorAll('.cell[tabindex="0"]')) cell.tabIndex = -1;
    target.tabIndex = 0;
  }

  key(event) {
    const here = event.target.closest(".cell");
    if (!here) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.click(here);
      return;
    }
    const row = [...here.parentElement.querySelectorAll(".cell")];
    const at = row.indexOf(here);
    const weeks = this.element.classList.contains("weeks");
    const steps = weeks ? { ArrowLeft: -7, ArrowRight: 7, ArrowUp: -1, ArrowDown: 1 } : { ArrowLeft: -1, ArrowRight: 1 };
    let next = null;
    if (event.key in steps) next = row[at + steps[event.key]];
    else if (event.key === "Home") next = row[0];
    else if (event.key === "End") next = row.at(-1);
    else if (event.key === "ArrowUp" || event.key === "PageUp") next = this.beside(here, at, -1);
    else if (event.key === "ArrowDown" || event.key === "PageDown") next = this.beside(here, at, 1);
    else return;
    event.preventDefault();
    next?.focus();
  }

  beside(here, at, step) {
    const rows = [...this.element.querySelectorAll(".row:not(.head)")].filter((row) => row.querySelector(".cell"));
    const row = rows[rows.indexOf(here.closest(".row")) + step];
    const cells = row ? [...row.querySelectorAll(".cell")] : [];
    return cells[Math.min(at, cells.length - 1)];
  }
}

const weekday = (date) => (new Date(`${date}T00:00Z`).getUTCDay() + 6) % 7; // Monday is 0

function mark(id, index, length) {
  if (!id.includes("T")) return index % 7 === 0 ? id.slice(5) : "";
  const hour = id.slice(11, 13);
  const whole = id.length === 14 || id.slice(13, 15) === "00";
  if (!whole || length > 60) return hour === "00" && whole ? id.slice(5, 10) : "";
  if (hour === "00") return id.slice(5, 10);
  return Number(hour) % 6 === 0 ? `${hour}h` : "";
}

export function legendList(legend) {
  const items = legend.map((entry) => h("li", {}, h("span", { class: `cell ${entry.cell}`, "aria-hidden": "true" }, entry.sign), h("span", {}, h("b", {}, entry.cell), " ", entry.meaning)));
  return h("ul", { class: "legend", "aria-label": "What the signs mean" }, items, h("li", {}, h("span", { class: "cell landing running", "aria-hidden": "true" }, "▸"), h("span", {}, h("b", {}, "framed"), " a run is at work on it now")));
}
