// What is wrong, once for each cause, and what repairs it: an hour's panel and a pipeline's page show the same.
import { copyable, h, prose, section, time } from "./dom.js";
import { count } from "./format.js";

const FIRST = 5;

export function causeCard(name, causes, mayStart) {
  const rest = causes.slice(FIRST);
  return section(
    "Open anomalies", causeList(name, causes.slice(0, FIRST), mayStart),
    rest.length > 0 && opened(`${count(rest.length)} more`, () => causeList(name, rest, mayStart)),
  );
}

export const causeList = (name, causes, mayStart) => h("ul", { class: "anomalies" }, causes.map((one) => h("li", { class: one.breaks ? "" : "unfinished" }, cause(name, one, mayStart))));

function cause(name, one, mayStart) {
  return [
    h("p", {}, h("b", {}, one.name), " ", one.place),
    h("p", {}, one.message),
    repairs(name, one, mayStart),
    one.advice && h("p", { class: "quiet" }, prose(one.advice)),
    one.breaks && h("p", { class: "quiet found" }, "Found ", time(one.found_at), one.held_at ? ["; it held at ", time(one.held_at)] : "", "."),
    one.anomalies > 1 && opened(`${count(one.anomalies)} anomalies`, () => examples(one)),
  ];
}

// A command with a range and a mode can be planned here; `--clean` and `--accept` are for a shell.
function repairs(name, one, mayStart) {
  return one.repairs.map((each) => h("p", { class: "repair" }, copyable(each.command), mayStart && each.mode && planLink(name, each)));
}

export function planLink(name, run, label = "Plan this repair") {
  const query = new URLSearchParams({ from: run.start, to: run.end, mode: run.mode, ...(run.tables.length ? { table: run.tables.join(",") } : {}) });
  return h("a", { class: "button small", href: `#/p/${encodeURIComponent(name)}/backfill?${query}` }, label);
}

function examples(one) {
  const items = one.examples.map((each) => h("li", {}, h("b", {}, each.kind), ` ${each.place}: ${each.message}`));
  const left = one.anomalies - one.examples.length;
  return h("ul", { class: "examples" }, items, left > 0 && h("li", { class: "quiet" }, `and ${count(left)} more: \`sluice verify --json\` lists all`));
}

export function opened(title, body) {
  const element = h("details", {}, h("summary", {}, title));
  element.addEventListener("toggle", async () => {
    if (element.open && element.childElementCount === 1) element.append(await body());
  });
  return element;
}

