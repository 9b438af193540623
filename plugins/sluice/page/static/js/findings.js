// What needs somebody, a finding for each cause: overview, pipeline and hour show the same list in the same words.
import * as api from "./api.js";
import { copyable, h, prose, time } from "./dom.js";
import { count } from "./format.js";
import { airflowLink } from "./links.js";
import { askAgain } from "./refresh.js";
import { format, sliceRoute } from "./router.js";

const FIRST = 8;
const NAMED = 3;
const [MOST_SAID, FIRST_SAID] = [320, 120];

export const needing = (findings) => (findings ?? []).filter((one) => one.tone);
export const lineOf = (one) => (one.effect ? `${one.what}: ${one.effect}` : one.what);

// One line for the most urgent, with its button, and one that names the next.
export function summary(name, row, mayStart) {
  const urgent = needing(row.findings);
  if (!urgent.length) return [];
  const [first, ...rest] = urgent;
  const repair = first.repairs?.find((one) => one.mode);
  const hidden = rest.length - NAMED + (row.more ?? 0);
  return [
    h("p", { class: `first-finding tone-${first.tone}` }, h("b", {}, hoursLink(name, first, lineOf(first))), mayStart && first.table && recreateButton(name, first.table), mayStart && repair && planLink(name, repair)),
    rest.length > 0 && h("p", { class: "quiet more-findings" }, `+${count(rest.length + (row.more ?? 0))} more: ${rest.slice(0, NAMED).map(lineOf).join(" · ")}${hidden > 0 ? " …" : ""}`),
  ];
}

export function findingList(name, findings, mayStart) {
  const [shown, rest] = [findings.slice(0, FIRST), findings.slice(FIRST)];
  return [list(name, shown, mayStart), rest.length > 0 && opened(`${count(rest.length)} more`, () => list(name, rest, mayStart))];
}

const list = (name, findings, mayStart) => h("ul", { class: "findings" }, findings.map((one) => h("li", { class: one.tone || "note" }, finding(name, one, mayStart))));

function finding(name, one, mayStart) {
  return [
    h("p", {}, h("b", {}, one.what), one.effect && [": ", hoursLink(name, one, one.effect)]),
    one.message && said(one.message),
    mayStart && one.table && h("p", { class: "repair" }, recreateButton(name, one.table)),
    mayStart && one.release && h("p", { class: "repair" }, releaseButton(name, one)),
    (one.repairs ?? []).map((each) => h("p", { class: "repair" }, copyable(each.command), mayStart && each.mode && planLink(name, each))),
    one.run && failure(one.run),
    one.advice && h("p", { class: "quiet" }, prose(one.advice)),
    one.since && h("p", { class: "quiet found" }, "Seen since ", time(one.since), one.held_at ? ["; last correct ", time(one.held_at)] : "", "."),
    one.anomalies > 1 && opened(`${count(one.anomalies)} anomalies`, () => examples(one)),
  ];
}

// A long text, such as one with a CREATE TABLE, is opened by who wants it.
function said(message) {
  if (message.length <= MOST_SAID) return h("p", {}, prose(message));
  return opened(`${message.slice(0, FIRST_SAID).replace(/\s+\S*$/, "")} …`, () => h("p", {}, prose(message)));
}

// The first hour that has it.
const hoursLink = (name, one, text) => (one.first?.includes("T") ? h("a", { href: format(sliceRoute(name, one.first)) }, text) : text);

// A command with a range and a mode can be planned here; `--clean` and `--accept` are for a shell.
export function planLink(name, run, label = "Plan this repair") {
  const query = new URLSearchParams({ from: run.start, to: run.end, mode: run.mode, ...(run.tables?.length ? { table: run.tables.join(",") } : {}) });
  return h("a", { class: "button small", href: `#/p/${encodeURIComponent(name)}/backfill?${query}` }, label);
}

// Makes a table as its last load knew it; what is there stays.
const recreateButton = (name, table) => doButton("Recreate", `Create ${table} as it was at its last load`, async () => {
  const { servers } = await api.recreate(name, table);
  return `${table} is there${servers ? " again" : ""}. Fill the hours that lack it.`;
});

// Lets an hour into a table out of which a check holds it.
const releaseButton = (name, one) => doButton("Release", `Let ${one.first} into ${one.release}`, async () => {
  await api.release(name, one.first, one.release);
  return `${one.first} is released. Fill it.`;
});

// A button that does one thing, and says beside it what came of it.
function doButton(label, title, act) {
  const said = h("span", { class: "quiet", role: "status" });
  const button = h("button", { type: "button", class: "small", title, onclick: async () => {
    button.disabled = true;
    try {
      said.textContent = ` ${await act()}`;
      await askAgain(); // what says that it is needed goes
    } catch (error) {
      said.textContent = ` ${error.message}`;
      button.disabled = false;
    }
  } }, label);
  return [button, said];
}

// Why the try failed is in its log, which Airflow shows to who may read it.
function failure(run) {
  const why = h("span", { class: "why", role: "status" });
  api.lastError(run).then((error) => { why.textContent = error ? `${error} ` : ""; }, () => {});
  return h("p", {}, why, airflowLink(api.taskUrl(run.dag_id, run.run_id, run), "Open its log"));
}

function examples(one) {
  const items = (one.examples ?? []).map((each) => h("li", {}, h("b", {}, each.kind), ` ${each.place}: `, prose(each.message)));
  const left = one.anomalies - items.length;
  return h("ul", { class: "examples" }, items, left > 0 && h("li", { class: "quiet" }, prose(`and ${count(left)} more: \`sluice verify --json\` lists all`)));
}

export function opened(title, body) {
  const element = h("details", {}, h("summary", {}, title));
  element.addEventListener("toggle", async () => {
    if (element.open && element.childElementCount === 1) element.append(await body());
  });
  return element;
}
