// The history of runs with what they moved, and how fast.
import * as api from "./api.js";
import { linePlot } from "./charts.js";
import { badge, empty, h, table, time } from "./dom.js";
import { bytes, clock, count, duration, rate } from "./format.js";
import { airflowLink } from "./links.js";

const TONES = { success: "good", failed: "bad", lost: "bad", running: "warn" };
const LOGS = 10; // of failed runs whose error is read out of Airflow's log at once
const perSecond = (rows, seconds) => (rows && seconds ? rate(rows / seconds) : "–");

export function runTable({ runs, count: all }, none, next) {
  const read = new Set(runs.filter((one) => one.failed).slice(0, LOGS));
  return h("div", {}, table("Runs", [
    { name: "Began", value: (r) => time(r.started) },
    { name: "Run", value: (r) => [r.dag_id ? airflowLink(api.runUrl(r.dag_id, r.run_id), r.kind) : "sluice run", r.user && h("span", { class: "quiet" }, ` by ${r.user}`)] },
    { name: "State", value: (r) => [r.state ? badge(r.state, TONES[r.state] ?? "") : "–", said(r, { read: read.has(r) })] },
    { name: "Range (UTC)", value: (r) => (r.start ? [edges(r), r.worked.length > 0 && h("div", { class: "quiet" }, "worked on ", r.worked.map((one, n) => [n > 0 && ", ", edges(one)]))] : "–") },
    { name: "Mode", value: (r) => `${r.mode}${r.tables.length ? `, only ${r.tables.join(", ")}` : ""}` },
    { name: "Took", number: true, value: (r) => duration(r.seconds) },
    { name: "Landed", number: true, unit: "records", value: (r) => count(r.moved.landed) }, { name: "Size", number: true, value: (r) => bytes(r.moved.bytes) },
    { name: "Landing", number: true, title: "Records a second, while it landed", value: (r) => perSecond(r.moved.landed, r.moved.land_seconds) },
    { name: "Loaded", number: true, unit: "rows", value: (r) => count(r.moved.loaded) },
    { name: "Loading", number: true, title: "Rows a second, while it loaded", value: (r) => perSecond(r.moved.loaded, r.moved.load_seconds) },
  ], runs, empty(none, next)), runs.length < all && h("p", { class: "quiet" }, `The newest ${runs.length} of ${count(all)}.`));
}

// Why a run has failed or had nothing to do. The error itself is in the log of the try, which Airflow shows to
// who may read it. In a list it has room for three lines; `whole`: for all of it.
export function said(run, { read = true, whole = false } = {}) {
  if (!run.why) return null;
  const error = h("span", { role: "status" });
  const reads = run.failed && read;
  if (reads) errorOf(run.failed).then((found) => { [error.textContent, error.title] = found ? [`: ${found}`, found] : ["", ""]; });
  const { failed } = run;
  const where = failed ? airflowLink(api.taskUrl(failed.dag_id, failed.run_id, failed), run.why) : run.why;
  return h("p", { class: whole ? "why" : `quiet why${reads ? " awaits" : ""}` }, where, error, run.before.map((one, index) => [index ? ", and by " : " Done before by ", earlier(one)]));
}

// A try that has failed for good has one log: it is read once, however often the list is drawn.
const errors = new Map();
function errorOf(failed) {
  const key = JSON.stringify(failed);
  if (errors.size > 100) errors.clear();
  if (!errors.has(key)) errors.set(key, api.lastError(failed).then((found) => found && atWord(found), () => null));
  return errors.get(key);
}

// The log's error comes cut off at so many characters: it ends with its last whole word.
const MOST = 2000;
function atWord(text) {
  if (text.length < MOST) return text;
  const end = text.slice(0, MOST).search(/\s\S*$/);
  return `${end > 0 ? text.slice(0, end) : text}…`;
}

const earlier = (one) => [one.dag_id ? airflowLink(api.runUrl(one.dag_id, one.run_id), `${one.kind} run`) : "sluice run", one.user ? ` of ${one.user}` : "", " ", time(one.at)];

const edges = ({ start, end }) => [h("span", { class: "nowrap" }, `${minute(start)} –`), " ", h("span", { class: "nowrap" }, minute(end))];

const minute = (iso) => clock(iso).slice(0, 16);

export function showThroughput(place, found, asked) {
  linePlot(place, "Throughput by hour, while steps were at work", found.starts, [{ label: "landed records/s", values: found.land }, { label: "loaded rows/s", values: found.load }], { asked, most: true, said: (value) => rate(value) });
}

// What a run did, step by step.
export function stepTable(steps, none = "It moved nothing.") {
  return table("What it did", [
    { name: "Step", value: (r) => (r.table ? `${r.step} ${r.table}` : r.step) }, { name: "Units", number: true, title: "Hours by cluster", value: (r) => count(r.units) },
    { name: "Rows", number: true, value: (r) => count(r.rows) }, { name: "Size", number: true, value: (r) => (r.bytes ? bytes(r.bytes) : "–") },
    { name: "Took", number: true, value: (r) => duration(r.seconds) }, { name: "Rate", number: true, value: (r) => perSecond(r.rows, r.seconds) },
  ], steps, none);
}
