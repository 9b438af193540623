// How far a pipeline is behind Kafka, now and by the hour, and what Kafka deletes next.
import { linePlot } from "./charts.js";
import { badge, card, empty, h, replace, section, stats, table, time } from "./dom.js";
import { bytes, count, counted, duration, rate, sliceName } from "./format.js";
import { format, sliceRoute } from "./router.js";

// Records behind, the oldest of them, and how long they take at the rate of the landed hours.
function lagSentence(rows) {
  if (!rows.length) return null;
  const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
  const [records, pace] = [sum("records"), sum("rate")];
  const ages = rows.filter((row) => row.records > 0 && row.seconds !== null).map((row) => row.seconds);
  const oldest = ages.length ? `, landed until ${duration(Math.max(...ages))} ago` : "";
  const [lacking, outside] = [sum("lacking"), sum("outside")];
  const passed = lacking ? ` ${count(lacking)} of them are in hours that landed without the topic: a reland brings them.` : "";
  const before = outside ? ` ${count(outside)} more lie before the first hour.` : "";
  return h("p", { class: "lag-sum" }, h("b", {}, count(records)), ` ${records === 1 ? "record" : "records"} in ${counted(rows.length, "partition")} ${records === 1 ? "is" : "are"} not landed${oldest}; in the newest landed hour they came at ${rate(pace)}.${passed}${before}`);
}

// Columns that are there where a partition has a number in them.
const seldom = [
  { name: "Held", number: true, value: (r) => count(r.held), title: "Of these, offsets behind an open transaction", key: "held" },
  { name: "Without topic", number: true, value: (r) => count(r.lacking), title: "Of these, offsets in hours that have landed without the topic", key: "lacking" },
  { name: "In no hour", number: true, value: (r) => count(r.outside), title: "Offsets before the first hour", key: "outside" },
];

export function showLag(place, lag) {
  const rows = lag.partitions.map((row) => ({ ...row, tone: row.landed_until === null && row.records > 0 ? "warn-row" : "" }));
  replace(place, section(
    "Lag now", lag.errors.map((line) => h("p", { class: "error" }, line)), lagSentence(lag.partitions),
    table("Lag by partition", [
      { name: "Topic", value: (r) => `${r.cluster}/${r.topic}` }, { name: "Part.", number: true, value: (r) => r.partition },
      { name: "Landed until", number: true, value: (r) => (r.landed_until === null ? "–" : count(r.landed_until)) },
      { name: "Log end", number: true, value: (r) => count(r.log_end) },
      { name: "Behind", number: true, value: (r) => count(r.records), title: "Records in Kafka that are not landed" },
      ...seldom.filter(({ key }) => rows.some((row) => row[key])),
      { name: "Age", number: true, value: (r) => duration(r.seconds), title: "Since the end of the newest landed hour" },
      { name: "Rate", number: true, value: (r) => rate(r.rate), title: "Records a second in the newest landed hour" },
    ], rows, "No partition is known."),
  ));
}

export function showTrend(place, trend, asked) {
  const none = empty("Nothing is known of this range.", "The watch notes the lag every hour: unpause its DAG.");
  linePlot(place, "Lag by hour: the highest that the watch saw", trend.starts, [{ label: "records behind", values: trend.records }, { label: "of these held by a transaction", values: trend.held }], { asked, most: true, none });
}

export function showRetention(place, name, { at, waiting, hours, topics, errors, keep }) {
  const next = hours.find((one) => one.seconds !== null);
  const gone = hours.reduce((sum, one) => sum + one.gone, 0);
  const badges = [gone > 0 && badge(`${counted(gone, "record")} deleted`, "bad"), !waiting && badge("nothing waits", "good")].filter(Boolean);
  replace(place, card(
    "Retention: what Kafka deletes next", { badges }, errors.map((line) => h("p", { class: "error" }, line)),
    waiting > 0 && stats([
      { label: "Not landed", value: count(waiting), unit: waiting === 1 ? "hour" : "hours", note: hours[0] && `the oldest ${sliceName(hours.map((one) => one.slice).sort()[0])}` },
      { label: "Next deletion", value: next ? (next.seconds > 0 ? `in ${duration(next.seconds)}` : "now") : "none known", note: next && `by ${next.by}`, tone: next && next.seconds < 21600 ? "bad" : next && next.seconds < 86400 ? "warn" : "" },
    ]),
    waiting > 0 && table("Hours that have not landed", [
      { name: "Hour", class: "nowrap", value: (r) => h("a", { href: format(sliceRoute(name, r.slice)) }, r.slice) }, { name: "Cluster", value: (r) => r.cluster },
      { name: "Kafka may delete it", value: (r) => (r.at ? [time(r.at), h("div", { class: "quiet" }, `${r.place}, by ${r.by}`)] : r.gone ? "it has begun" : "no limit is known") },
      { name: "Records", number: true, value: (r) => count(r.records) }, { name: "Deleted", number: true, value: (r) => count(r.gone) },
    ], hours.map((one) => ({ ...one, tone: one.gone ? "bad-row" : "" })), "They were not asked for: their cluster does not answer."),
    hours.length < waiting && h("p", { class: "quiet" }, `The oldest ${hours.length} of ${count(waiting)} hours.`),
    !waiting && h("p", { class: "quiet" }, "What has landed stays in the lake, whatever Kafka deletes."),
    topicTable(topics), keep ? keepTable(name, keep) : h("p", { class: "quiet" }, "The lake and the tables keep what has landed: the pipeline file has no keep."), h("p", { class: "quiet" }, "Kafka's answer is from ", time(at), "."),
  ));
}

// What the lake itself forgets, as `keep` in the pipeline file says.
function keepTable(name, keep) {
  const kept = (seconds) => (seconds === null ? "for ever" : duration(seconds));
  const next = (what) => keep.following.find((one) => one.what === what);
  const rows = [
    { place: "Lake: files of an hour", kept: keep.lake_seconds, next: next("files") },
    { place: "Lake: bytes of rejected records", kept: keep.rejected_seconds, next: next("rejected records") },
    ...Object.entries(keep.table_seconds).map(([table, seconds]) => ({ place: table === "*" ? "Tables: rows, by their own TTL" : `Table ${table}: rows, by its own TTL`, kept: seconds })),
  ];
  return table("What has landed is kept", [
    { name: "Place", value: (r) => r.place }, { name: "Kept for", number: true, value: (r) => kept(r.kept) },
    { name: "Deleted next", value: (r) => (r.next ? [h("a", { href: format(sliceRoute(name, r.next.slice)) }, r.next.slice), h("div", { class: "quiet" }, time(r.next.at))] : "") },
  ], rows, "");
}

function topicTable(topics) {
  return table("How long Kafka keeps topics", [
    { name: "Topic", value: (r) => `${r.cluster}/${r.topic}` }, { name: "Kept for", number: true, value: (r) => (r.kept_seconds === null ? "no limit" : duration(r.kept_seconds)) },
    { name: "Kept per partition", number: true, value: (r) => (r.kept_bytes === null ? "no limit" : bytes(r.kept_bytes)) },
    { name: "Oldest record", value: (r) => time(r.oldest, { short: true }) },
    { name: "Deleted from", title: "When the oldest record is as old as the topic allows", value: (r) => (r.oldest && r.kept_seconds !== null ? time(new Date(Date.parse(r.oldest) + r.kept_seconds * 1000).toISOString()) : "–") }, { name: "Records", number: true, value: (r) => count(r.records) },
  ], topics, "No topic is known.");
}
