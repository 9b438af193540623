import * as api from "./api.js";
import { showChanges } from "./changes.js";
import { linePlot } from "./charts.js";
import { asOf, badge, card, empty, h, loading, prose, replace, section, tabs, time } from "./dom.js";
import { findingList, needing } from "./findings.js";
import { count, counted } from "./format.js";
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
  const [head, notice, problem, body] = [h("div"), h("div"), h("div", { "aria-live": "polite" }), h("div", { class: "stack" })];
  const failed = (error) => replace(problem, h("p", { class: "error", role: "alert" }, error.message));
  let shown = null;
  let stop = () => {};
  replace(view, head, notice, problem, body);
  async function show(query) {
    const tab = tabOf(query);
    replace(notice, query.tab && query.tab !== tab && h("p", { class: "error", role: "alert" }, `There is no tab ${query.tab}: this is ${NAMES[tab]}.`));
    if (tab === shown) return;
    shown = tab;
    stop();
    replace(problem);
    replace(head, pipelineHead(name, tab, range, asked));
    const refresh = TABS[tab](body, name, asked);
    const mine = await keep(async () => {
      const busy = await refresh();
      if (tab !== "hours") asOf(new Date().toISOString());
      replace(problem);
      return busy;
    }, (error) => shown === tab && failed(error));
    if (shown === tab) stop = mine;
    else mine();
  }
  const off = onRoute((route) => { if (route.view === "pipeline" && route.pipeline === name) show(route.query); });
  await show(current().query);
  return () => { off(); shown = null; stop(); };
}

const tabOf = (query) => (Object.hasOwn(TABS, query.tab ?? "") ? query.tab : "hours");

// `tab` is that of the view, or backfill: a view of its own beside the tabs.
export function pipelineHead(name, tab, { from, to } = {}, asked = { from: "48h", to: "now" }) {
  const address = (key) => format({ view: "pipeline", pipeline: name, query: { from, to, tab: key === "hours" ? null : key } });
  const entries = Object.keys(TABS).map((key) => ({ name: NAMES[key], href: address(key), current: key === tab }));
  entries.push({ name: "Backfill", href: format({ view: "backfill", pipeline: name }), current: tab === "backfill" });
  return h("div", { class: "stack" }, h("div", { class: "bar" }, h("h1", {}, name), rangePicker(asked, { view: "pipeline", pipeline: name, query: { tab: ["hours", "backfill"].includes(tab) ? null : tab } })), tabs(name, entries));
}

function placesOf(names, height = "120px") {
  return Object.fromEntries(names.map((key, number) => [key, h("div", { class: `place ${key}`, hidden: number > 0 }, loading(height))]));
}

// One part that does not answer leaves the others alone. A part is seen once those before it are: what comes late
// moves nothing that is there.
async function part(place, title, show, ...also) {
  await show().catch((error) => replace(place, section(title, h("p", { class: "error" }, error.message))));
  for (const filled of [place, ...also]) filled.dataset.filled = "yes";
  const all = [...document.querySelectorAll("#view .place")];
  const waits = all.findIndex((one) => !one.dataset.filled);
  all.forEach((one, number) => { one.hidden = waits >= 0 && number > waits; });
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
  const places = placesOf(["findings", "tables", "freshness"], "84px");
  replace(body, h("div", { class: "card wide" }, grid.element), places.findings, places.tables, places.freshness);
  return async () => {
    const data = await api.overview(asked);
    const row = data.pipelines.find((each) => each.pipeline === name);
    if (!row) throw new Error(`There is no pipeline ${name} that you may see.`);
    grid.show(row, data);
    asOf(data.now, data.user);
    await Promise.all([
      part(places.findings, "Needs attention", async () => showFindings(places.findings, row, await api.checks(name))),
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
      part(places.sizes, "Hours against earlier ones", async () => showSizes(places.sizes, name, await api.sizes(name))),
      part(places.rows, "Rows per hour", async () => showSeries(places, await api.series(name, range), asked), places.rejected),
      part(places.late, "Late events", async () => showLate(places, await api.late(name, range)), places.delays),
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
      part(places.trend, "Lag by hour", async () => showTrend(places.trend, await api.lagTrend(name, asked), asked)),
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
      showThroughput(places.throughput, found.throughput, asked);
      replace(places.runs, section("Runs", runTable(found, "No run was at work in this range.", "Hourly runs begin when the DAG is unpaused.")));
    }, places.throughput);
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

// The overview's own list, in full, and who has looked.
function showFindings(place, row, checks) {
  const findings = row.findings ?? [];
  const shape = JSON.stringify(findings);
  if (place.dataset.shape === shape) {
    replace(place.querySelector(".last"), looked(checks));
    return; // an opened list stays open
  }
  place.dataset.shape = shape;
  const urgent = needing(findings);
  const badges = urgent.length ? [badge(count(urgent.length + (row.more ?? 0)), urgent[0].tone)] : [badge("healthy", "good")];
  const body = findings.length ? findingList(row.pipeline, findings, row.can_start) : empty("Nothing is known to be wrong.");
  const more = row.more ? h("p", { class: "quiet" }, prose(`${count(row.more)} more: \`sluice verify\` lists all.`)) : null;
  replace(place, card("Needs attention", { badges }, body, more, h("p", { class: "quiet last" }, looked(checks))));
}

function looked({ verified, watched, paused, watch_dag: dag, remedy }) {
  const link = airflowLink(api.dagUrl(dag), dag);
  const found = verified && `: ${counted(verified.units, "cluster-hour")}, ${counted(verified.records, "record")}, ${counted(verified.found, "anomaly", "anomalies")}`;
  return [
    verified ? h("span", {}, "Last verified ", time(verified.at), found, ". ") : "Nothing was verified yet. ",
    watched ? h("span", {}, "Last watched ", time(watched), " by ", link, paused && ", which is paused", ".") : h("span", {}, "Not watched yet: ", link, paused ? " is paused." : " has not run."),
    remedy && !paused && ` ${remedy}`, // that it is paused is a finding
  ];
}

function showSeries(places, series, asked) {
  const types = Object.entries(series.types);
  const lines = types.length ? types.map(([label, values]) => ({ label, values })) : [{ label: "rows loaded", values: series.rows }, { label: "records read", values: series.read }];
  const each = series.by_day ? "day" : "hour";
  linePlot(places.rows, `Rows per ${each}${types.length ? " by type" : ""}`, series.starts, lines, { asked });
  linePlot(places.rejected, `Rejected per ${each}`, series.starts, [{ label: "rejected records", values: series.rejected_records }, { label: "rejected rows", values: series.rejected_rows }, { label: "later than grace", values: series.late }], { asked });
}

function showLate(places, late) {
  replace(places.delays, section("Late events by delay", delayTable(late.delays), h("p", { class: "quiet" }, "Of at most the last three days of the range.")));
  replace(places.late, section("Late events by hour", heatTable(late)));
}
