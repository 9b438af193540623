// The history of runs with what they moved, and how fast.
import * as api from "./api.js";
import { linePlot } from "./charts.js";
import { badge, empty, h, table, time } from "./dom.js";
import { bytes, clock, count, duration, rate } from "./format.js";
import { airflowLink } from "./links.js";

const TONES = { success: "good", failed: "bad", running: "warn" };
const perSecond = (rows, seconds) => (rows && seconds ? rate(rows / seconds) : "–");

export function runTable({ runs, count: all }, none, next) {
  return h("div", {}, table("Runs", [
    { name: "Began", value: (r) => time(r.started) },
    { name: "Run", value: (r) => [r.dag_id ? airflowLink(api.runUrl(r.dag_id, r.run_id), r.kind) : "sluice run", r.user && h("span", { class: "quiet" }, ` by ${r.user}`)] },
    { name: "State", value: (r) => (r.state ? badge(r.state, TONES[r.state] ?? "") : "–") },
    { name: "Range (UTC)", value: (r) => (r.start ? [h("span", { class: "nowrap" }, `${minute(r.start)} –`), " ", h("span", { class: "nowrap" }, minute(r.end))] : "–") },
    { name: "Mode", value: (r) => `${r.mode}${r.tables.length ? `, only ${r.tables.join(", ")}` : ""}` },
    { name: "Took", number: true, value: (r) => duration(r.seconds) },
    { name: "Landed", number: true, unit: "records", value: (r) => count(r.moved.landed) }, { name: "Size", number: true, value: (r) => bytes(r.moved.bytes) },
    { name: "Landing", number: true, title: "Records a second, while it landed", value: (r) => perSecond(r.moved.landed, r.moved.land_seconds) },
    { name: "Loaded", number: true, unit: "rows", value: (r) => count(r.moved.loaded) },
    { name: "Loading", number: true, title: "Rows a second, while it loaded", value: (r) => perSecond(r.moved.loaded, r.moved.load_seconds) },
  ], runs, empty(none, next)), runs.length < all && h("p", { class: "quiet" }, `The newest ${runs.length} of ${count(all)}.`));
}

const minute = (iso) => clock(iso).slice(0, 16);

export function showThroughput(place, found) {
  linePlot(place, "Throughput by hour, while steps were at work", found.starts, [{ label: "landed records/s", values: found.land }, { label: "loaded rows/s", values: found.load }], { most: true, said: (value) => rate(value) });
}

// What a run did, step by step.
export function stepTable(steps) {
  return table("What it did", [
    { name: "Step", value: (r) => (r.table ? `${r.step} ${r.table}` : r.step) }, { name: "Units", number: true, title: "Hours by cluster", value: (r) => count(r.units) },
    { name: "Rows", number: true, value: (r) => count(r.rows) }, { name: "Size", number: true, value: (r) => (r.bytes ? bytes(r.bytes) : "–") },
    { name: "Took", number: true, value: (r) => duration(r.seconds) }, { name: "Rate", number: true, value: (r) => perSecond(r.rows, r.seconds) },
  ], steps, "No step had anything to do.");
}
