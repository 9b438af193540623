// What an hour brought, beside the same hour of yesterday and of a week ago, and what its tables hold now.
import * as api from "./api.js";
import { card, empty, h, replace, table } from "./dom.js";
import { bytes, count, percent } from "./format.js";

export function countsCard(name, { slice, counts, tables, balance }) {
  if (!counts.length) return card("Counts", {}, empty("Nothing of this hour has landed, so there is nothing to count."));
  return card(
    "Counts", {}, balanceLine(balance),
    h("div", { class: "columns" }, h("div", {}, table("Counts of the hour", [
      { name: "Count", class: "nowrap", value: (r) => r.name },
      { name: "This hour", number: true, value: (r) => shown(r, r.now) },
      { name: "A day earlier", number: true, value: (r) => shown(r, r.day) }, { name: "±", number: true, class: "change", value: (r) => change(r.now, r.day), title: "Against the same hour a day earlier" },
      { name: "A week earlier", number: true, value: (r) => shown(r, r.week) }, { name: "±", number: true, class: "change", value: (r) => change(r.now, r.week), title: "Against the same hour a week earlier" },
    ], counts)), tablesOf(name, slice, tables)),
  );
}

// The ledger's count stands at once; the tables are asked after that, for it may take them a second.
function tablesOf(name, slice, tables) {
  const place = h("div", {});
  const show = (now) => replace(place, tableOf(tables, now));
  show(null);
  api.rowsNow(name, slice).then(show, (error) => show({ rows: {}, errors: [error.message] }));
  return place;
}

const differs = (row, now) => now?.rows[row.table] !== undefined && now.rows[row.table] !== row.committed;

function tableOf(tables, now) {
  const held = (row) => (now ? (now.rows[row.table] === undefined ? "–" : count(now.rows[row.table])) : "…");
  const tone = (row) => (row.committed + row.rejected_rows < row.landed ? "warn-row" : "");
  return [
    table("Tables of the hour", [
      { name: "Table", value: (r) => r.table },
      { name: "Landed", number: true, value: (r) => count(r.landed) },
      { name: "Loaded", number: true, title: "Rows that the ledger says are committed", value: (r) => count(r.committed) },
      { name: "In table now", number: true, title: "Rows that the table holds, whoever wrote them", value: (r) => (differs(r, now) ? h("b", { class: "bad-text" }, `${held(r)} ≠`) : held(r)) },
      { name: "Rejected", number: true, value: (r) => [count(r.rejected_rows), r.rejected_rows > 0 && h("span", { class: "unit" }, ` ${percent(r.rejected_rows / Math.max(r.landed, 1))}`)] },
      { name: "Defaults", title: "Columns that got defaults, for the events have no value, and in which share of the rows", value: (r) => r.defaults || "–" },
      { name: "A day earlier", number: true, value: (r) => (r.day === null ? "–" : count(r.day)), title: "Loaded in the same hour a day earlier" },
      { name: "A week earlier", number: true, value: (r) => (r.week === null ? "–" : count(r.week)), title: "Loaded in the same hour a week earlier" },
    ], tables.map((row) => ({ ...row, tone: tone(row) })), "The pipeline file has no table."),
    now?.errors.map((line) => h("p", { class: "error" }, line)),
  ];
}

// Every row is somewhere: in a table, rejected there, without a table, or not loaded yet.
function balanceLine({ landed, loaded, rejected_rows, without_table: without, not_loaded: left, types }) {
  const names = Object.entries(types).map(([name, rows]) => `${name} ${count(rows)}`).join(", ");
  return h(
    "p", { class: "balance" }, h("b", {}, count(landed)), " rows landed = ", h("b", {}, count(loaded)), " loaded + ", h("b", {}, count(rejected_rows)), " rejected + ", h("b", {}, count(without)), " without a table",
    names && ` (${names})`, left !== 0 && [" + ", h("b", { class: "warn-text" }, count(left)), " not loaded"], ".",
  );
}

const shown = (row, value) => (value === null ? "–" : row.unit === "bytes" ? bytes(value) : count(value));

function change(now, then) {
  if (then === null || then === 0) return "";
  const share = (now - then) / then;
  return share === 0 ? "=" : `${share > 0 ? "+" : "−"}${percent(Math.abs(share))}`;
}
