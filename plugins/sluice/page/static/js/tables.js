// A pipeline's tables: how far each is, and what ClickHouse says of it.
import { badge, card, empty, h, replace, table, time } from "./dom.js";
import { bytes, count, percent, sliceName } from "./format.js";
import { format, sliceRoute } from "./router.js";

const TONES = { complete: "good", behind: "warn", "wrong rows": "bad", "no such table": "bad" };
const known = (value, said) => (value === null ? "–" : said(value));

export function showTables(place, name, { tables, errors, departed, start, end }, mayStart) {
  const gone = tables.filter((one) => one.state === "no such table").length;
  const behind = tables.filter((one) => one.state === "behind").length;
  const wrong = tables.filter((one) => one.state === "wrong rows").length;
  const badges = [wrong > 0 && badge(`${wrong} with wrong rows`, "bad"), gone > 0 && badge(`${gone} missing`, "bad"), behind > 0 && badge(`${behind} behind`, "warn"), !gone && !behind && !wrong && tables.length > 0 && badge("all complete", "good")].filter(Boolean);
  const rows = tables.map((one) => ({ ...one, tone: one.state === "no such table" ? "bad-row" : "" }));
  replace(place, card("Tables", { badges }, errors.map((line) => h("p", { class: "error" }, line)), departed.map((line) => h("p", {}, line)), table("Tables", [
    { name: "Table", class: "name-cell", value: (r) => [h("b", {}, r.table), h("div", { class: "quiet" }, r.kind === "events" ? r.types.join(", ") : r.kind)] },
    { name: "State", value: (r) => badge(r.state, TONES[r.state] ?? "") },
    { name: "Missing", number: true, unit: "hours", value: (r) => lacks(name, r, mayStart, end) },
    { name: "Complete until", value: (r) => (r.complete_until ? time(r.complete_until) : r.behind ? "not in this range" : "–") },
    { name: "Rows", number: true, title: "Of the hours of the range", value: (r) => count(r.rows) },
    { name: "Rejected rows", number: true, title: "Of the hours of the range, and their share of what came for the table", value: (r) => [count(r.rejected_rows), r.rejected_rows > 0 && h("span", { class: "unit" }, ` ${percent(r.rejected_rows / (r.rows + r.rejected_rows))}`)] },
    { name: "Defaults", title: "Of the hours of the range: columns that got defaults, for the events have no value, and in which share of the rows", value: (r) => r.defaults || "–" },
    { name: "Last load", value: (r) => time(r.last_load, { short: true }) },
    { name: "Parts", number: true, value: (r) => known(r.parts, count) }, { name: "Size", number: true, value: (r) => known(r.bytes, bytes) },
    { name: "Total rows", number: true, title: "Of the table now, whoever wrote them, without deleted ones", value: (r) => known(r.rows_in_all, count) },
  ], rows, empty("The pipeline file names no table.", "Rows stay in the lake until `tables` names one.")), h("p", { class: "quiet" }, `Of the hours from ${start.slice(0, 16).replace("T", " ")} to ${end.slice(0, 16).replace("T", " ")} UTC, at most eight days. What is older is in the hours above.`)));
}

// The first hour that the table lacks, and the plan that brings them all.
function lacks(name, row, mayStart, end) {
  if (!row.behind) return count(0);
  const from = row.first_behind;
  const plan = format({ view: "backfill", pipeline: name, query: { from, to: "now", mode: "fill", table: row.table } });
  return [h("a", { href: format(sliceRoute(name, from)), title: `The first is ${sliceName(from)}` }, count(row.behind)), mayStart && row.state !== "no such table" && [" ", h("a", { class: "button small", href: plan, "aria-label": `Plan what ${row.table} lacks` }, "Plan")]];
}
