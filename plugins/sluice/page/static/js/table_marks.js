// How each table does in the range: those with something wrong first, and how many more are healthy.
import { h } from "./dom.js";
import { count } from "./format.js";

const SIGNS = { missing: "✕", wrong: "≠", behind: "!", healthy: "✓" };
const WORDS = { missing: "is missing", wrong: "has wrong rows", behind: "is behind", healthy: "is healthy" };
const MOST = 8;

export function tableMarks(href, marks) {
  if (!marks.length) return [];
  const order = Object.keys(SIGNS);
  const sorted = [...marks].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
  const shown = sorted.length > MOST ? sorted.filter((one) => one.state !== "healthy").slice(0, MOST) : sorted;
  const rest = sorted.slice(shown.length);
  const words = rest.every((one) => one.state === "healthy") ? "healthy" : "more";
  return h("p", { class: "table-marks" }, h("a", { class: "quiet", href }, "Tables"), shown.map(mark), rest.length > 0 && h("span", { class: "quiet" }, `${count(rest.length)} ${words}`));
}

// The full name and what the sign means are for a mouse and for a screen reader.
function mark({ table, state, hours }) {
  const said = `${table} ${WORDS[state]}${hours ? `: ${count(hours)} ${hours === 1 ? "hour" : "hours"}` : ""}`;
  return h("span", { class: `mark-of ${state}`, title: said, role: "img", "aria-label": said }, `${table.slice(table.indexOf(".") + 1)} ${SIGNS[state]}${hours ? count(hours) : ""}`);
}
