import * as api from "./api.js";
import { backfillForm } from "./backfill.js";
import { causeCard } from "./causes.js";
import { linePlot } from "./charts.js";
import { h, replace, section, table } from "./dom.js";
import { clock, count, duration, rate } from "./format.js";
import { freshnessCard } from "./freshness.js";
import { Grid } from "./grid.js";
import { heatTable } from "./heat.js";
import { airflowLink } from "./links.js";
import { rangePicker } from "./overview.js";
import { keep } from "./refresh.js";
import { go, sliceRoute } from "./router.js";

export async function pipelineView(view, name, range) {
  const asked = { from: range.from ?? "48h", to: range.to ?? "now" };
  const grid = new Grid((pipeline, id) => go(id.includes("T") ? sliceRoute(pipeline, id) : { view: "pipeline", pipeline, query: { from: id } }));
  const places = Object.fromEntries(["problem", "problems", "anomalies", "lag", "rows", "rejected", "late", "freshness", "backfill"].map((key) => [key, h("div", { class: `place ${key}` })]));
  replace(
    view, h("div", { class: "bar" }, h("h1", {}, name), rangePicker(asked, { view: "pipeline", pipeline: name })), places.problem,
    h("div", { class: "card wide" }, grid.element), places.problems, places.anomalies,
    h("div", { class: "two" }, places.rows, places.rejected, places.lag, places.late), places.freshness, places.backfill,
  );
  let exact = null;
  let form = null;
  return keep(async () => {
    const data = await api.overview(asked);
    const row = data.pipelines.find((each) => each.pipeline === name);
    if (!row) throw new Error(`There is no pipeline ${name} that you may see.`);
    grid.show({ ...data, pipelines: [row] });
    document.getElementById("asof").textContent = `${data.user}, ${clock(data.now)} UTC`;
    replace(places.problem);
    if (!form) form = backfillForm(places.backfill, name, row, data);
    exact = { from: data.start, to: asked.to === "now" ? "now" : data.end };
    await Promise.all([
      part(places.anomalies, "Open anomalies", async () => showAnomalies(places.anomalies, await api.anomalies(name), name, row.can_start)),
      part(places.problems, "Problems", async () => showProblems(places.problems, await api.problems(name))),
      part(places.lag, "Lag", async () => showLag(places.lag, await api.lag(name))),
      part(places.rows, "Rows per hour", async () => showSeries(places, await api.series(name, exact))),
      part(places.freshness, "Freshness", async () => replace(places.freshness, freshnessCard(await api.freshness(name)))),
      part(places.late, "Late events", async () => replace(places.late, section("Late events", heatTable(await api.late(name, exact))))),
    ]);
    return row.cells.some((cell) => cell.running);
  }, (error) => replace(places.problem, h("p", { class: "error", role: "alert" }, error.message)));
}

// One part that does not answer leaves the others alone.
async function part(place, title, show) {
  await show().catch((error) => replace(place, section(title, h("p", { class: "error" }, error.message))));
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

// Records behind, the oldest of them, and how long they take at the rate of the landed hours.
function lagSentence(rows) {
  if (!rows.length) return null;
  const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
  const [records, pace] = [sum("records"), sum("rate")];
  const ages = rows.filter((row) => row.records > 0 && row.seconds !== null).map((row) => row.seconds);
  const oldest = ages.length ? `, landed until ${duration(Math.max(...ages))} ago` : "";
  return h("p", { class: "lag-sum" }, h("b", {}, count(records)), ` records in ${rows.length} partitions are not landed${oldest}; in the landed hours they came at ${rate(pace)}.`);
}

function showLag(place, lag) {
  const rows = lag.partitions.map((row) => ({ ...row, tone: row.landed_until === null && row.records > 0 ? "warn-row" : "" }));
  replace(place, section(
    "Lag", lag.errors.map((line) => h("p", { class: "error" }, line)), lagSentence(lag.partitions),
    table("Lag by partition", [
      { name: "Topic", value: (r) => `${r.cluster}/${r.topic}` }, { name: "Part.", number: true, value: (r) => r.partition },
      { name: "Landed until", number: true, value: (r) => (r.landed_until === null ? "–" : count(r.landed_until)) },
      { name: "Log end", number: true, value: (r) => count(r.log_end) },
      { name: "Behind", number: true, value: (r) => count(r.records), title: "Records in Kafka that are not landed" },
      { name: "Held", number: true, value: (r) => count(r.held), title: "Of these, offsets behind an open transaction" },
      { name: "Age", number: true, value: (r) => duration(r.seconds), title: "Since the end of the newest landed hour" },
      { name: "Rate", number: true, value: (r) => rate(r.rate), title: "Records a second over the landed hours shown" },
    ], rows, "No partition is known."),
  ));
}

function showSeries(places, series) {
  const types = Object.entries(series.types);
  const lines = types.length ? types.map(([label, values]) => ({ label, values })) : [{ label: "rows loaded", values: series.rows }, { label: "records read", values: series.read }];
  const each = series.by_day ? "day" : "hour";
  linePlot(places.rows, `Rows per ${each}${types.length ? " by type" : ""}`, series.starts, lines);
  linePlot(places.rejected, `Rejected per ${each}`, series.starts, [{ label: "unparsed", values: series.unparsed }, { label: "misfits", values: series.misfits }, { label: "later than grace", values: series.late }]);
}
