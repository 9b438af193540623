import * as api from "./api.js";
import { causeCard, opened as more } from "./causes.js";
import { h, replace, section, table } from "./dom.js";
import { bytes, clock, count, duration, sliceName } from "./format.js";
import { airflowLink } from "./links.js";

export async function sliceView(panel, name, id) {
  const data = await api.slice(name, id);
  const samples = section("Rejected records", h("p", { class: "quiet" }, "Loading…"));
  replace(
    panel, head(name, data),
    h("div", { class: "panel-body" }, data.causes.length > 0 && causeCard(name, data.causes, data.can_start), data.changes.length > 0 && changes(data.changes), data.units.map((unit) => unitCard(name, data, unit)), runs(data.runs), timings(data.timings), samples),
  );
  loadSamples(samples, name, id, data);
}

function head(name, data) {
  const go = (id) => (id ? h("a", { class: "button", href: `#/s/${encodeURIComponent(name)}/${id}` }, id === data.before ? "← Earlier" : "Later →") : null);
  const done = data.units.length && data.units.every((unit) => unit.state.startsWith("complete"));
  return h(
    "header", { class: "panel-head" },
    h("div", {}, h("h1", { id: "panel-title" }, `${name}, ${sliceName(data.slice)}`), h("p", { class: "quiet" }, h("b", { class: `state ${data.cell}` }, data.cell), data.running && ` · now ${data.running}`, done && " · in every table"), data.event_hours.map(eventHour)),
    h("nav", { "aria-label": "Other hours" }, go(data.before), go(data.after), h("button", { type: "button", autofocus: true, "aria-label": "Close", onclick: () => document.getElementById("panel").close() }, "✕")),
  );
}

// The slice is Kafka's hour; the event hour is complete when later slices cannot bring it events in time any more.
function eventHour({ hour, complete, types: all }) {
  const what = complete === all ? "is complete: its folders are marked" : complete ? `is marked for ${complete} of ${all} types` : "is not marked yet: later hours may still bring it events";
  return h("p", { class: "quiet event-hour" }, `Event hour ${hour.replace("T", " ")}:00 ${what}.`);
}

const changes = (rows) => section("Fields of events that changed", table("Fields of events that changed", [
  { name: "Cluster", value: (r) => r.cluster }, { name: "Type", value: (r) => r.type },
  { name: "Field", class: "code", value: (r) => r.field }, { name: "Change", value: (r) => r.kind },
  { name: "Rows", value: (r) => r.message },
], rows));

function unitCard(name, data, unit) {
  const facts = [
    ["State", unit.state + (unit.verified ? ", verified" : "")],
    ["Records read", count(unit.read)], ["Parsed", count(unit.parsed)],
    ...(unit.rows_held == null ? [] : [["Rows in them", count(unit.rows_held)]]),
    ["Unparsed", count(unparsed(unit))], ["Holes", count(unit.holes)], ["Later than grace", count(unit.late)],
    ["Files", `${count(unit.file_count)}, ${bytes(unit.bytes)}`], ["Landed", unit.landed_at ? `${clock(unit.landed_at)} UTC` : "–"],
    ["Manifest", unit.manifest || "–"],
  ];
  return section(
    `Cluster ${unit.cluster}`,
    h("dl", { class: "facts-list" }, facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)))),
    unit.losses.length > 0 && losses(unit.losses),
    unit.lacking_topics.length > 0 && h("p", { class: "warn" }, `Landed without topics ${unit.lacking_topics.join(", ")}: reland brings them.`),
    h("div", { class: "columns" }, part("Tables", tables(unit)), part("Offsets", offsets(unit)), part("Rows landed by type", types(unit)), part("Unparsed by reason", counts(unit.rejected_by_reason, "Reason"))),
    more(`Files (${unit.file_count})`, () => files(unit)),
    unit.manifest && more("Manifest", async () => h("pre", { tabindex: "0" }, JSON.stringify(await api.manifest(name, data.slice, unit.cluster), null, 1))),
  );
}

const part = (title, body) => h("div", {}, h("h3", {}, title), body);

const losses = (rows) => table("Lost offsets", [
  { name: "Lost in Kafka", value: (r) => `${r.topic}/${r.partition}` },
  { name: "Offsets", value: (r) => `${r.exact ? "" : "at most "}[${count(r.start)}, ${count(r.until)})` },
], rows);

const tables = (unit) => table(`Tables of ${unit.cluster}`, [
  { name: "Table", value: (r) => r.table },
  { name: "", value: (r) => r.state },
  { name: "Landed", number: true, value: (r) => count(r.landed) },
  { name: "Committed", number: true, value: (r) => count(r.rows) },
  { name: "Misfits", number: true, value: (r) => count(r.misfits) },
], unit.tables.map((row) => ({ ...row, tone: row.state === "committed" ? "" : "warn-row" })), "No tables.");

const offsets = (unit) => table(`Offsets of ${unit.cluster}`, [
  { name: "Topic", value: (r) => r.topic },
  { name: "Part.", number: true, value: (r) => r.partition },
  { name: "From", number: true, value: (r) => count(r.start) },
  { name: "Until", number: true, value: (r) => count(r.until) },
  { name: "Offsets", number: true, value: (r) => count(r.records) },
], unit.offsets, "Not resolved yet.");

const counts = (byName, what) => table(what, [
  { name: what, value: ([key]) => key },
  { name: "Records", number: true, value: ([, value]) => count(value) },
], Object.entries(byName), "None.");

// Where each type's rows go, and whether they are there.
function types(unit) {
  const table_of = (type) => unit.tables.find((row) => row.types.includes(type));
  return table("Type", [
    { name: "Type", value: ([type]) => type },
    { name: "Rows", number: true, value: ([, rows]) => count(rows) },
    { name: "Table", value: ([type]) => table_of(type)?.table ?? "–" },
    { name: "", value: ([type]) => table_of(type)?.state ?? "" },
  ], Object.entries(unit.rows_by_type), "None.");
}

const files = (unit) => h("div", {}, table("Files", [
  { name: "Type", value: (r) => r.type }, { name: "Event hour", value: (r) => r.hour || "–" },
  { name: "Rows", number: true, value: (r) => count(r.rows) }, { name: "Size", number: true, value: (r) => bytes(r.bytes) },
  { name: "Key in the lake", class: "code", value: (r) => r.key },
], unit.files), unit.files.length < unit.file_count && h("p", { class: "quiet" }, `The ${unit.files.length} largest of ${count(unit.file_count)}.`));

function runs(found) {
  const rows = found.flatMap((run) => run.tasks.map((task, index) => ({ ...task, run, first: index === 0, tone: task.state === "failed" ? "bad-row" : "" })));
  return section("Airflow runs", table("Airflow runs and attempts", [
    { name: "Run", value: (r) => (r.first ? airflowLink(api.runUrl(r.run.dag_id, r.run.run_id), `${r.run.dag_id} · ${r.run.run_id}`) : "") },
    { name: "Task", value: (r) => airflowLink(api.taskUrl(r.run.dag_id, r.run.run_id, r), r.task_id) },
    { name: "State", value: (r) => r.state },
    { name: "Attempts", number: true, value: (r) => r.tries },
    { name: "Began (UTC)", value: (r) => clock(r.started) },
    { name: "Took", number: true, value: (r) => duration(r.seconds) },
  ], rows, "No run of Airflow has touched this hour; `sluice run` may have."));
}

const timings = (rows) => section("Time of each step", table("Time of each step", [
  { name: "Step", value: (r) => r.step + (r.table ? ` ${r.table}` : "") },
  { name: "Mode", value: (r) => r.mode || "–" },
  { name: "Began (UTC)", value: (r) => clock(r.started) },
  { name: "Took", number: true, value: (r) => duration(r.seconds) },
  { name: "Slices of its batch", number: true, value: (r) => count(r.units) },
  { name: "Rows", number: true, value: (r) => count(r.rows) },
], rows, "Nothing is recorded yet."));

const unparsed = (unit) => Object.values(unit.rejected_by_reason).reduce((sum, n) => sum + n, 0);

const WITHHELD = {
  hidden: "Payloads and values are hidden: `page: {payloads: hidden}` in the pipeline file.",
  masked: "Payloads show kinds in place of values. All is shown where the pipeline file says `page: {payloads: shown}`, to who has the right `Sluice Payloads` and may edit the DAG.",
};

async function loadSamples(place, name, id, data) {
  const expected = data.units.reduce((sum, u) => sum + unparsed(u) + u.tables.reduce((s, t) => s + t.misfits, 0), 0);
  let body = h("p", { class: "quiet" }, "No record of this hour was rejected.");
  if (expected > 0) {
    const { samples, payloads } = await api.rejected(name, id).catch((error) => ({ samples: [], error }));
    const rows = table("Samples of rejected records", [
      { name: "Kind", value: (r) => r.kind }, { name: "Reason", value: (r) => r.reason },
      { name: "Column and value", value: (r) => (r.place ? (r.value ? `${r.place}: ${r.value}` : r.place) : "–") },
      { name: "Where", value: (r) => `${r.cluster}/${r.topic}/${r.partition} @ ${count(r.offset)}` },
      ...(payloads === "hidden" ? [] : [{ name: "Payload", class: "code payload", value: (r) => r.payload }]),
    ], samples, "The records could not be read: verify says why.");
    body = WITHHELD[payloads] ? [h("p", { class: "quiet" }, WITHHELD[payloads]), rows] : rows;
  }
  replace(place, h("h2", {}, "Rejected records"), body);
}
