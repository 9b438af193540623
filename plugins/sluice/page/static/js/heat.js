import { h } from "./dom.js";
import { count, sliceName } from "./format.js";

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
