// One hour: what is wrong and its remedy first, then counts, rejects, steps, and what it is made of.
import * as api from "./api.js";
import { causeList, planLink } from "./causes.js";
import { badge, card, copyable, empty, h, loading, prose, replace, table, time } from "./dom.js";
import { sliceName } from "./format.js";
import { airflowLink } from "./links.js";
import { countsCard } from "./slice_counts.js";
import { rejectsCard } from "./slice_rejects.js";
import { stepsCard } from "./slice_steps.js";
import { unitCard } from "./slice_units.js";

export async function sliceView(panel, name, id) {
  const data = await api.slice(name, id);
  const rejects = h("div", { class: "place" }, card("Rejected records", {}, loading("6em")));
  replace(
    panel, head(name, data),
    h("div", { class: "panel-body" }, remedies(name, data), countsCard(data), rejects, stepsCard(data), data.changes.length > 0 && changes(data.changes), data.units.map((unit) => unitCard(name, data, unit))),
  );
  rejectsCard(rejects, name, id, data);
}

function head(name, data) {
  const go = (id) => (id ? h("a", { class: "button", href: `#/s/${encodeURIComponent(name)}/${id}` }, id === data.before ? "← Earlier" : "Later →") : null);
  return h(
    "header", { class: "panel-head" },
    h(
      "div", { class: "panel-title" },
      h("h1", { id: "panel-title" }, `${name}, ${sliceName(data.slice)}`),
      h("p", { class: "said" }, h("b", { class: `state ${data.cell}` }, data.cell), ` ${data.said}`, data.running && h("span", { class: "quiet" }, ` A run is ${data.running} now.`)),
      data.event_hours.map(eventHour),
    ),
    h("nav", { "aria-label": "Other hours" }, go(data.before), go(data.after), h("button", { type: "button", autofocus: true, "aria-label": "Close", onclick: () => document.getElementById("panel").close() }, "✕")),
  );
}

// The slice is Kafka's hour; the event hour is complete when later slices cannot bring it events in time any more.
function eventHour({ hour, complete, types: all, forgotten }) {
  const open = forgotten ? "has no mark: the lake has forgotten its files" : "is not marked yet: later hours may still bring it events";
  const what = complete === all ? "is complete: its folders are marked" : complete ? `is marked for ${complete} of ${all} types` : open;
  return h("p", { class: "quiet event-hour" }, `Event hour ${hour.replace("T", " ")}:00 ${what}.`);
}

function remedies(name, data) {
  const { causes, findings } = data;
  if (!causes.length && !findings.length) return card("What is wrong", { class: "remedies" }, empty("Nothing is known to be wrong with this hour.", nextOf(data)));
  const urgent = findings.filter((one) => one.tone).length + causes.length;
  return card(
    "What is wrong, and what to do", { class: "remedies", badges: urgent > 0 ? [badge(String(urgent), "bad")] : [] },
    causes.length > 0 && h("div", {}, h("h3", {}, "Open anomalies"), causeList(name, causes, data.can_start)),
    findings.length > 0 && h("ul", { class: "anomalies findings" }, findings.map((one) => finding(name, one, data.can_start))),
  );
}

const nextOf = (data) => ({ loaded: "The next verify counts it.", open: "It is taken when it is over.", waiting: "The next hourly run takes it." })[data.cell] ?? null;

function finding(name, one, mayStart) {
  return h(
    "li", { class: one.tone || "note" }, h("p", {}, h("b", {}, one.title)), h("p", {}, one.message),
    one.repair && h("p", { class: "repair" }, copyable(one.repair.command), mayStart && planLink(name, one.repair)),
    one.run && failure(one.run), one.advice && h("p", { class: "quiet" }, prose(one.advice)),
    one.since && h("p", { class: "quiet" }, "Seen since ", time(one.since), "."),
  );
}

// Why the try failed is in its log, which Airflow shows to who may read it.
function failure(run) {
  const why = h("span", { class: "why", role: "status" });
  api.lastError(run).then((error) => { why.textContent = error ? `${error} ` : ""; }, () => {});
  return h("p", {}, why, airflowLink(api.taskUrl(run.dag_id, run.run_id, run), "Open its log"));
}

const changes = (rows) => card("Fields of events that changed", {}, table("Fields of events that changed", [
  { name: "Cluster", value: (r) => r.cluster }, { name: "Type", value: (r) => r.type },
  { name: "Field", class: "code", value: (r) => r.field }, { name: "Change", value: (r) => r.kind },
  { name: "Rows", value: (r) => r.message },
], rows));
