// What one cluster's part of an hour is made of: offsets, tables, files, manifest.
import * as api from "./api.js";
import { opened as more } from "./findings.js";
import { card, h, table } from "./dom.js";
import { bytes, clock, count } from "./format.js";

export function unitCard(name, data, unit) {
  const facts = [
    ["In the tables", unit.state.startsWith("complete") ? `${unit.state}: every table has it` : unit.state],
    unit.manifest && ["Counts", unit.verified ? "match, by the last verify" : data.findings.some((one) => one.kind === "damage") ? "don't all match: see above" : "not verified as it is now"],
    ["Records read", count(unit.read)], ["Parsed", count(unit.parsed)],
    ...(unit.rows_held == null ? [] : [["Rows in them", count(unit.rows_held)]]),
    ["Rejected records", count(rejectedRecords(unit))], ["Gaps", count(unit.gaps)], ...(unit.erased ? [["Erased", count(unit.erased)]] : []), ["Later than grace", count(unit.late)], ...(unit.tombstones ? [["Tombstones", count(unit.tombstones)]] : []),
    ["Files", `${count(unit.file_count)}, ${bytes(unit.bytes)}`], ["Landed", unit.landed_at ? `${clock(unit.landed_at)} UTC` : "–"],
    ["Manifest", unit.manifest || "–"],
  ].filter(Boolean);
  return card(
    `Cluster ${unit.cluster}`, {},
    h("dl", { class: "facts-list" }, facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)))),
    unit.losses.length > 0 && losses(unit.losses),
    unit.lacking_topics.length > 0 && h("p", { class: "warn" }, `Landed without topics ${unit.lacking_topics.join(", ")}: reland brings them.`),
    h("div", { class: "columns" }, part("Tables", tables(unit)), part("Offsets", offsets(unit)), part("Rows landed by type", types(unit)), part("Rejected by reason", counts(unit.rejected_by_reason, "Reason"))),
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
  { name: "State", value: (r) => r.state },
  { name: "Landed", number: true, value: (r) => count(r.landed) },
  { name: "Committed", number: true, value: (r) => count(r.rows) },
  { name: "Rejected rows", number: true, value: (r) => count(r.rejected_rows) },
], unit.tables.map((row) => ({ ...row, tone: ["committed", "before", "open"].includes(row.state) ? "" : "warn-row" })), "No tables.");

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
    { name: "State", value: ([type]) => table_of(type)?.state ?? "" },
  ], Object.entries(unit.rows_by_type), "None.");
}

const files = (unit) => h("div", {}, table("Files", [
  { name: "Type", value: (r) => r.type }, { name: "Event hour", value: (r) => r.hour || "–" },
  { name: "Rows", number: true, value: (r) => count(r.rows) }, { name: "Size", number: true, value: (r) => bytes(r.bytes) },
  { name: "Key in the lake", class: "code", value: (r) => r.key },
], unit.files), unit.files.length < unit.file_count && h("p", { class: "quiet" }, `The ${unit.files.length} largest of ${count(unit.file_count)}.`));


const rejectedRecords = (unit) => Object.values(unit.rejected_by_reason).reduce((sum, n) => sum + n, 0);
