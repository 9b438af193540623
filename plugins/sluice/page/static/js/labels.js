// What a cell says in words, and the legend of the signs.
import { h } from "./dom.js";
import { count, counted, rejectedRecords, rejectedRows, sliceName } from "./format.js";

export const stateWords = (state) => state.replaceAll("-", " ");

export function cellLabel(pipeline, cell, legend) {
  const meaning = legend.get(cell.cell)?.meaning ?? cell.cell;
  const name = cell.id.includes("T") ? sliceName(cell.id) : cell.id;
  const parts = [`${pipeline}, ${name}: ${stateWords(cell.cell)} (${meaning})`];
  const counts = Object.entries(cell.counts ?? {});
  if (counts.length > 1) parts.push(counts.map(([state, number]) => `${number} ${stateWords(state)}`).join(", "));
  if (cell.running) parts.push(/^\d+$/.test(cell.running) ? `${cell.running} being worked on` : `now ${cell.running}`);
  if (cell.missing?.length) parts.push(`missing from ${cell.missing.join(", ")}`);
  if (cell.anomalies) parts.push(`${cell.anomalies} ${cell.anomalies === 1 ? "anomaly" : "anomalies"}`);
  if (cell.read) parts.push(`${counted(cell.read, "record")}, ${counted(cell.rows ?? 0, "row")} loaded`);
  if (cell.rejected) parts.push(rejectedRecords(cell.rejected));
  if (cell.rejected_rows) parts.push(rejectedRows(cell.rejected_rows));
  if (cell.late) parts.push(`${count(cell.late)} later than grace`);
  return parts.join("; ");
}

// Behind a "?": whoever knows the signs has the place for hours.
export const legendButton = () => h("button", { type: "button", class: "help", popovertarget: "legend", "aria-label": "What the signs mean", title: "What the signs mean" }, "?");

export function legendPopover(legend) {
  const items = legend.map((entry) => h("li", {}, h("span", { class: `cell ${entry.cell}`, "aria-hidden": "true" }, entry.sign), h("span", {}, h("b", {}, stateWords(entry.cell)), " ", entry.meaning)));
  const running = h("li", {}, h("span", { class: "cell landing running", "aria-hidden": "true" }, "▸"), h("span", {}, h("b", {}, "framed"), " a run is working on it now"));
  return h("div", { id: "legend", popover: "auto", class: "card popover", role: "dialog", "aria-label": "What the signs mean" }, h("h2", {}, "What the signs mean"), h("ul", { class: "legend" }, items, running));
}
