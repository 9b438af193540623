// One hour: what is wrong and its remedy first, then counts, rejects, steps, and what it is made of.
import * as api from "./api.js";
import { badge, card, empty, h, loading, replace, table, time } from "./dom.js";
import { findingList, needing } from "./findings.js";
import { stateWords } from "./labels.js";
import { countsCard } from "./slice_counts.js";
import { noteLength } from "./slice_frame.js";
import { rejectsCard } from "./slice_rejects.js";
import { stepsCard } from "./slice_steps.js";
import { unitCard } from "./slice_units.js";

// Fills the frame, unless another hour is shown by then.
export async function sliceView({ said, body, whole }, name, id) {
  const data = await api.slice(name, id);
  if (!body.isConnected) return;
  noteLength(name, Date.parse(data.end) - Date.parse(data.start));
  whole();
  const rejects = h("div", { class: "place" }, card("Rejected records", {}, loading("6em")));
  replace(said, saidOf(data));
  replace(body, remedies(name, data), countsCard(name, data), rejects, stepsCard(data), data.changes.length > 0 && changes(data.changes), data.units.map((unit) => unitCard(name, data, unit)));
  rejectsCard(rejects, name, id, data);
}

function saidOf(data) {
  return [
    h("p", { class: "said" }, h("b", { class: `state ${data.cell}` }, stateWords(data.cell)), ` ${data.said}`, data.running && h("span", { class: "quiet" }, ` A run is ${data.running} now.`)),
    data.event_hours.map(eventHour),
    data.forgets_at && h("p", { class: "quiet" }, "The lake forgets its files ", time(data.forgets_at), "."),
  ];
}

// The slice is Kafka's hour; the event hour is complete when later slices cannot bring it events in time any more.
function eventHour({ hour, complete, types: all, forgotten }) {
  const open = forgotten ? "has no mark: the lake has forgotten its files" : "is not marked yet: later hours may still bring it events";
  const what = complete === all ? "is complete: its folders are marked" : complete ? `is marked for ${complete} of ${all} types` : open;
  return h("p", { class: "quiet event-hour" }, `Event hour ${hour.replace("T", " ")}:00 ${what}.`);
}

function remedies(name, { findings, can_start: mayStart, ...data }) {
  if (!findings.length) return card("What is wrong", { class: "remedies" }, empty("Nothing is known to be wrong with this hour.", nextOf(data)));
  const urgent = needing(findings);
  const badges = urgent.length ? [badge(String(urgent.length), urgent[0].tone)] : [];
  return card(urgent.length ? "Needs attention" : "Nothing is wrong", { class: "remedies", badges }, findingList(name, findings, mayStart));
}

const nextOf = (data) => ({ loaded: "The next verify counts it.", open: "It is taken when it is over.", waiting: "The next hourly run takes it." })[data.cell] ?? null;

const changes = (rows) => card("Fields of events that changed", {}, table("Fields of events that changed", [
  { name: "Cluster", value: (r) => r.cluster }, { name: "Type", value: (r) => r.type },
  { name: "Field", class: "code", value: (r) => r.field }, { name: "Change", value: (r) => r.kind },
  { name: "Rows", value: (r) => r.message },
], rows));
