import * as api from "./api.js";
import { causeCard } from "./causes.js";
import { showChanges } from "./changes.js";
import { linePlot } from "./charts.js";
import { h, loading, replace, section, table, tabs } from "./dom.js";
import { clock, count } from "./format.js";
import { freshnessCard } from "./freshness.js";
import { CellGrid } from "./grid.js";
import { delayTable, heatTable } from "./heat.js";
import { showLag, showRetention, showTrend } from "./lag.js";
import { airflowLink } from "./links.js";
import { rangePicker } from "./range.js";
import { keep } from "./refresh.js";
import { current, format, go, onRoute, sliceRoute } from "./router.js";
import { runTable, showThroughput } from "./runs.js";
import { showSizes } from "./sizes.js";
import { showTables } from "./tables.js";

// Each asks only for what it shows. A tab makes its places and returns what fills them: true while something runs.
const TABS = { hours: hoursTab, traffic: trafficTab, lag: lagTab, runs: runsTab, changes: changesTab };
const NAMES = { hours: "Hours and tables", traffic: "Traffic", lag: "Lag and retention", runs: "Runs", changes: "Changes" };

export async function pipelineView(view, name, range) {
  const asked = { from: range.from ?? "48h", to: range.to ?? "now" };
  const [head, problem, body] = [h("div"), h("div", { "aria-live": "polite" }), h("div", { class: "stack" })];
  const failed = (error) => replace(problem, h("p", { class: "error", role: "alert" }, error.message));
  let shown = null;
  let stop = () => {};
  replace(view, head, problem, body);
  async function show(tab) {
    if (tab === shown) return;
    shown = tab;
    stop();
    replace(problem);
    replace(head, pipelineHead(name, tab, range, asked));
    const refresh = TABS[tab](body, name, asked);
    const mine = await keep(async () => {
      const busy = await refresh();
      replace(problem);
      return busy;
    }, (error) => shown === tab && failed(error));
    if (shown === tab) stop = mine;
    else mine();
  }
  const off = onRoute((route) => { if (route.view === "pipeline" && route.pipeline === name) show(tabOf(route.query)); });
  await show(tabOf(current().query));
  return () => { off(); shown = null; stop(); };
}

const tabOf = (query) => (Object.hasOwn(TABS, query.tab ?? "") ? query.tab : "hours");

// `tab` is that of the view, or backfill: a view of its own beside the tabs.
export function pipelineHead(name, tab, { from, to } = {}, asked = null) {
  const address = (key) => format({ view: "pipeline", pipeline: name, query: { from, to, tab: key === "hours" ? null : key } });
  const entries = Object.keys(TABS).map((key) => ({ name: NAMES[key], href: address(key), current: key === tab }));
  entries.push({ name: "Backfill", href: format({ view: "backfill", pipeline: name }), current: tab === "backfill" });
  const ranged = asked && tab !== "changes";
  return h("div", { class: "stack" }, h("div", { class: "bar" }, h("h1", {}, name), ranged && rangePicker(asked, { view: "pipeline", pipeline: name, query: { tab: tab === "hours" ? null : tab } })), tabs(name, entries));
}

function placesOf(names, height = "120px") {
  return Object.fromEntries(names.map((key) => [key, h("div", { class: `place ${key}` }, loading(height))]));
}

// One part that does not answer leaves the others alone.
async function part(place, title, show) {
  await show().catch((error) => replace(place, section(title, h("p", { class: "error" }, error.message))));
}

// An age such as 48h as an instant, for what takes instants only.
function exact({ from, to }) {
  const hours = /^(\d{1,5})h$/.exec(from)?.[1];
  if (!hours) return { from, to };
  const end = Math.ceil(Date.now() / 3600000) * 3600000;
  return { from: `${new Date(end - Number(hours) * 3600000).toISOString().slice(0, 16)}Z`, to };
}

function hoursTab(body, name, asked) {
  const grid = new CellGrid((pipeline, id) => go(id.includes("T") ? sliceRoute(pipeline, id) : { view: "pipeline", pipeline, query: { from: id } }));
  const places = placesOf(["problems", "anomalies", "tables", "freshness"], "84px");
  replace(body, h("div", { class: "card wide" }, grid.element), places.problems, places.anomalies, places.tables, places.freshness);
  return async () => {
    const data = await api.overview(asked);
    const row = data.pipelines.find((each) => each.pipeline === name);
    if (!row) throw new Error(`There is no pipeline ${name} that you may see.`);
    grid.show(row, data);
    document.getElementById("asof").textContent = `${data.user}, ${clock(data.now)} UTC`;
    await Promise.all([
      part(places.anomalies, "Open anomalies", async () => showAnomalies(places.anomalies, await api.anomalies(name), name, row.can_start)),
      part(places.problems, "Problems that the watch sees", async () => showProblems(places.problems, await api.problems(name))),
      part(places.tables, "Tables", async () => showTables(places.tables, name, await api.tables(name, asked), row.can_start)),
      part(places.freshness, "Freshness", async () => replace(places.freshness, freshnessCard(await api.freshness(name)))),
    ]);
    return row.cells.some((cell) => cell.running);
  };
}

function trafficTab(body, name, asked) {
  const places = placesOf(["sizes", "rows", "rejected", "delays", "late"], "260px");
  replace(body, places.sizes, h("div", { class: "two" }, places.rows, places.rejected, places.delays, places.late));
  return async () => {
    const range = exact(asked);
    await Promise.all([
      part(places.sizes, "Hours against those before", async () => showSizes(places.sizes, name, await api.sizes(name))),
      part(places.rows, "Rows per hour", async () => showSeries(places, await api.series(name, range))),
      part(places.late, "Late events", async () => showLate(places, await api.late(name, range))),
    ]);
    return false;
  };
}

function lagTab(body, name, asked) {
  const places = placesOf(["lag", "trend", "retention"], "200px");
  replace(body, h("div", { class: "two" }, places.lag, h("div", { class: "stack" }, places.trend, places.retention)));
  return async () => {
    await Promise.all([
      part(places.lag, "Lag now", async () => showLag(places.lag, await api.lag(name))),
      part(places.trend, "Lag by hour", async () => showTrend(places.trend, await api.lagTrend(name, asked))),
      part(places.retention, "Retention", async () => showRetention(places.retention, name, await api.retention(name))),
    ]);
    return false;
  };
}

function runsTab(body, name, asked) {
  const places = placesOf(["throughput", "runs"], "260px");
  replace(body, places.throughput, places.runs);
  return async () => {
    await part(places.runs, "Runs", async () => {
      const found = await api.runs(name, asked);
      showThroughput(places.throughput, found.throughput);
      replace(places.runs, section("Runs", runTable(found, "No run was at work in this range.", "Hourly runs begin when the DAG is unpaused.")));
    });
    return false;
  };
}

function changesTab(body, name) {
  const places = placesOf(["changes"]);
  replace(body, places.changes);
  return async () => {
    await part(places.changes, "Changes", async () => showChanges(places.changes, name, await api.changes(name)));
    return false;
  };
}

function showAnomalies(place, { causes: found, verifications }, name, mayStart) {
  const last = verifications[0];
  const said = last ? `Last verified ${clock(last.at)} UTC: ${count(last.units)} hours and clusters, ${count(last.records)} records, ${last.found} anomalies.` : "Nothing was verified yet.";
  const shape = JSON.stringify(found);
  if (place.dataset.shape === shape) {
    place.querySelector(".last").textContent = said;
    return; // an opened list stays open
  }
  place.dataset.shape = shape;
  const body = found.length ? causeCard(name, found, mayStart) : section("Open anomalies", h("p", { class: "quiet" }, "None."));
  body.append(h("p", { class: "quiet last" }, said));
  replace(place, body);
}

// What the watch has seen: also what will be lost if nothing happens.
function showProblems(place, { problems, watched, paused, watch_dag: dag, remedy }) {
  const link = airflowLink(api.dagUrl(dag), dag);
  const said = watched ? h("p", { class: "quiet" }, `Last watched ${clock(watched)} UTC by `, link, paused && ", which is paused", ".") : h("p", { class: "quiet" }, "Not watched yet: ", link, paused ? " is paused." : " has not run.");
  replace(place, section("Problems that the watch sees", table("Problems that the watch sees", [
    { name: "Problem", value: (r) => r.kind }, { name: "Where", value: (r) => r.place },
    { name: "What", class: "wide-text", value: (r) => r.message }, { name: "Since (UTC)", value: (r) => clock(r.since) },
  ], problems, watched && !paused ? "None." : "Nothing is known."), said, remedy && h("p", { class: "warn" }, remedy)));
}

function showSeries(places, series) {
  const types = Object.entries(series.types);
  const lines = types.length ? types.map(([label, values]) => ({ label, values })) : [{ label: "rows loaded", values: series.rows }, { label: "records read", values: series.read }];
  const each = series.by_day ? "day" : "hour";
  linePlot(places.rows, `Rows per ${each}${types.length ? " by type" : ""}`, series.starts, lines);
  linePlot(places.rejected, `Rejected per ${each}`, series.starts, [{ label: "rejected records", values: series.rejected_records }, { label: "rejected rows", values: series.rejected_rows }, { label: "later than grace", values: series.late }]);
}

function showLate(places, late) {
  replace(places.delays, section("Late events by delay", delayTable(late.delays), h("p", { class: "quiet" }, "Of at most the last three days of the range.")));
  replace(places.late, section("Late events by hour", heatTable(late)));
}
