import { empty, h, table } from "./dom.js";
import { count, percent, sliceName } from "./format.js";

const SHADES = 6;

// Rows by the hour that brought them (down) and the hour that they are of (across).
export function heatTable({ arrivals, events, cells, most }) {
  if (!cells.length) return h("p", { class: "quiet" }, "No event of these hours came later than its own hour.");
  const rows = new Map(cells.map((cell) => [`${cell.arrival} ${cell.event}`, cell.rows]));
  const head = h("tr", {}, h("th", { scope: "col" }, "arrived \\ event hour"), events.map((event) => h("th", { scope: "col" }, eventName(event))));
  const body = arrivals.map((arrival) => h("tr", {}, h("th", { scope: "row" }, sliceName(arrival).slice(5, 16)), events.map((event) => cell(rows.get(`${arrival} ${event}`), most))));
  return h("div", { class: "scroll heat", tabindex: "0", role: "region", "aria-label": "Late events by arrival and event hour" }, h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
}

function cell(rows, most) {
  if (!rows) return h("td", {}, "");
  const shade = Math.ceil((Math.log1p(rows) / Math.log1p(most)) * SHADES);
  return h("td", { class: `shade-${shade} number`, title: `${count(rows)} rows` }, rows < 10000 ? count(rows) : `${Math.round(rows / 1000)}k`);
}

const eventName = (event) => (event === "older" ? "older" : `${event.slice(5, 10)} ${event.slice(11)}h`);

// How many rows came how long after their own hour. The first line is of those that came in it.
export function delayTable(delays) {
  const total = delays.reduce((sum, one) => sum + one.rows, 0);
  if (!total) return empty("No event has landed in this range.", "Choose a longer one, or see under Hours what waits.");
  const late = delays.slice(1);
  const most = Math.max(1, ...late.map((one) => one.rows));
  const rows = delays.map((one, index) => ({ ...one, name: index ? delayName(one) : "in its own hour", share: one.rows / total, length: index ? one.rows / most : null }));
  return table("Rows by delay", [
    { name: "Came", value: (r) => r.name }, { name: "Rows", number: true, value: (r) => count(r.rows) }, { name: "Share", number: true, value: (r) => percent(r.share) },
    { name: "Of the late ones", class: "bar-cell", value: (r) => (r.length ? h("span", { class: "hbar", css: { "--w": `${Math.max(r.length * 100, 1)}%` } }) : "") },
  ], rows);
}

function delayName({ hours, until }) {
  const span = (value) => (value < 48 ? `${value} h` : `${value / 24} d`);
  return until === null ? `${span(hours)} late and more` : until === hours + 1 ? `${span(hours)} late` : `${span(hours)} to ${span(until)} late`;
}
