// A pipeline in the overview: what it needs somebody for, its cells, and its key figures.
import * as api from "./api.js";
import { badge, h, replace, stats, time } from "./dom.js";
import { needing, summary } from "./findings.js";
import { ago, brief, clock, count, counted, percent, rejectedRows, sliceName } from "./format.js";
import { CellGrid } from "./grid.js";
import { tableMarks } from "./table_marks.js";
import { lagOf } from "./lag_queue.js";
import { current, format, go, sliceRoute } from "./router.js";
import { sparkline } from "./spark.js";

const DONE = new Set(["forgotten", "verified", "loaded", "empty", "odd", "lossy", "broken"]);

export class PipelineCard {
  constructor(name) {
    this.name = name;
    this.grid = new CellGrid(openCell);
    this.link = h("a", { href: "#/" }, name);
    this.state = h("span", { class: "needs" });
    this.needs = h("div", { class: "summary" });
    this.next = h("span", { class: "actions quiet" });
    this.tables = h("div");
    this.figures = h("div");
    const head = h("div", { class: "card-head" }, h("h2", {}, this.link), this.state, this.next);
    this.element = h("section", { class: "card pipeline", data: { pipeline: name }, "aria-label": name }, head, this.needs, this.grid.element, this.tables, this.figures);
    this.lag = { state: "asked" };
    this.stopLag = lagOf(this.element, () => api.lagNow(name), (lag) => this.showLag(lag));
  }

  show(row, data) {
    this.row = row;
    this.data = data;
    const { from, to } = current().query;
    this.link.setAttribute("href", format({ view: "pipeline", pipeline: this.name, query: { from, to } }));
    const [urgent] = needing(row.findings);
    replace(this.state, urgent ? badge("Needs attention", urgent.tone) : badge("healthy", "good"));
    replace(this.needs, summary(this.name, row, row.can_start));
    replace(this.next, nextRun(row));
    this.grid.show(row, data);
    replace(this.tables, tableMarks(this.link.getAttribute("href"), row.marks ?? []));
    this.showFigures();
  }

  showLag(lag) {
    this.lag = lag;
    if (this.row) this.showFigures();
  }

  showFigures() {
    const { row, data, lag } = this;
    const figures = row.error ? [lagFigure(lag)] : [freshness(row, data), rowsFigure(row, data), againstExpected(row, data), lagFigure(lag), rejected(row), lost(row, lag)];
    replace(this.figures, stats(figures));
  }

  stop() {
    this.stopLag();
  }
}

function openCell(pipeline, id) {
  if (id.includes("T")) return go(sliceRoute(pipeline, id));
  const next = new Date(Date.parse(`${id}T00:00Z`) + 86400000).toISOString().slice(0, 10);
  go({ view: "overview", query: { from: id, to: next } });
}

function nextRun(row) {
  if (row.paused) return "no next run";
  return row.next_run ? ["next run ", time(row.next_run, { short: true })] : "";
}

// The newest hour that is complete, and how many before it are not.
function freshness(row, data) {
  if (row.behind_seconds === null || row.behind_seconds === undefined) return { label: "Newest complete", value: "–", note: "no hour in this range" };
  const until = Date.parse(data.now) - row.behind_seconds * 1000;
  const start = new Date(until - row.slice_seconds * 1000).toISOString();
  const gaps = data.zoom === "days" ? 0 : row.cells.slice(0, row.cells.indexOf(newest(row)) + 1).filter((cell) => !DONE.has(cell.cell) && cell.cell !== "before").length;
  return { label: "Newest complete", value: clock(start).slice(11, 16), unit: `UTC ${start.slice(5, 10)}`, note: `${ago(until, Date.parse(data.now))}${gaps ? `; ${count(gaps)} before ${gaps === 1 ? "is" : "are"} not` : ""}` };
}

// The newest that is done, and the shape of all.
function rowsFigure(row, data) {
  const each = data.zoom === "days" ? "day" : row.slice_seconds === 3600 ? "hour" : "slice";
  const values = row.cells.map((cell) => (DONE.has(cell.cell) || cell.rows ? cell.rows ?? 0 : null));
  const today = data.zoom === "days" && row.cells.at(-1)?.rows ? row.cells.at(-1) : null; // so far
  const last = today ?? newest(row);
  if (!last) return { label: `Rows per ${each}`, value: "–", note: "none is complete", tone: "wide" };
  const [value, unit] = brief(last.rows ?? 0);
  const label = `Rows per ${each} of the range, from ${count(Math.min(...values.filter(Number.isFinite)))} to ${count(Math.max(...values.filter(Number.isFinite)))}${row.expected?.some(Number.isFinite) ? "; dashed: expected" : ""}`;
  return { label: `Rows per ${each}`, value: h("span", { class: "with-spark" }, h("span", {}, value, h("span", { class: "unit" }, ` ${unit} rows`)), sparkline(values, { label, expected: row.expected ?? [] })), note: last.id.includes("T") ? `at ${sliceName(last.id).slice(11, 16)}` : `${last.id}${today ? " so far" : ""}`, tone: "wide" };
}

const newest = (row) => row.cells.findLast((cell) => DONE.has(cell.cell) && !cell.counts?.open);

function againstExpected(row, data) {
  if (data.zoom === "days") return null;
  const last = newest(row);
  const expected = last && row.expected?.[row.cells.indexOf(last)];
  if (!expected) return { label: "Against expected", value: "–", note: "no history yet" };
  const share = (last.rows ?? 0) / expected - 1;
  const sign = share < 0 ? "−" : "+";
  const [value, unit] = brief(expected);
  return { label: "Against expected", value: `${sign}${percent(Math.abs(share)).replace(" %", "")}`, unit: "%", note: `of ${value}${unit && ` ${unit}`} expected`, title: `${count(last.rows ?? 0)} rows; the same hour of earlier weeks has ${count(expected)}` };
}

function lagFigure(lag) {
  if (lag.state === "asked") return { label: "Lag", value: h("span", { class: "loading", css: { "--h": "1.1em" }, "aria-hidden": "true" }), note: "asking Kafka" };
  if (lag.error) return { label: "Lag", value: "–", note: "not known", title: lag.error };
  const silent = (lag.errors ?? []).length;
  const [value, unit] = brief(lag.records);
  const note = silent ? `${silent} silent ${silent === 1 ? "cluster" : "clusters"}` : lag.seconds === null ? (lag.records ? "nothing has landed" : "nothing waits") : `${ago(0, lag.seconds * 1000).replace(" ago", "")} behind`;
  const outside = lag.outside ? `; ${count(lag.outside)} before the first hour` : "";
  const about = [lag.lacking && `${count(lag.lacking)} in hours that landed without the topic`, lag.outside && `${count(lag.outside)} offsets before the first hour`].filter(Boolean);
  const unknown = silent > 0 && lag.records === 0;
  return { label: "Lag", value: unknown ? "–" : value, unit: unknown ? "" : `${unit} records`.trim(), note: note + outside, tone: silent ? "warn" : "", title: [...(lag.errors ?? []), ...about].join("\n") || null };
}

// Records that nothing could be made of, and rows that a table rejected: two counts, which are not added up. Of arrays
// the first are elements.
function rejected(row) {
  const [bad, rows, read] = ["rejected", "rejected_rows", "read"].map((key) => row.cells.reduce((sum, cell) => sum + (cell[key] ?? 0), 0));
  const all = brief(read).join(" ").trim();
  const share = bad && (row.arrays ? `of ${counted(read, "array")}` : `${percent(bad / Math.max(1, read))} of ${all}`);
  const note = [share, rows && rejectedRows(rows)].filter(Boolean).join("; ");
  return { label: "Rejected records", value: count(bad), unit: "", note: note || (read ? "none" : "nothing was read") };
}

// What landings have recorded in the range, and what Kafka has deleted of hours that have not landed.
function lost(row, lag) {
  const [recorded, deleted, hours] = [row.lost ?? 0, lag.gone ?? 0, row.cells.filter((cell) => cell.cell === "expired").length];
  const said = [recorded && `${count(recorded)} recorded`, deleted && `${count(deleted)} deleted by Kafka before they landed`, hours && `${count(hours)} ${hours === 1 ? "hour" : "hours"} expired`].filter(Boolean);
  const gone = recorded + deleted;
  return { label: "Lost", value: count(gone), unit: gone ? "records" : "", note: said.join(", ") || "none", tone: said.length ? "bad" : "" };
}
