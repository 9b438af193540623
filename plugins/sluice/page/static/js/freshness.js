import { empty, section, table, time } from "./dom.js";
import { count, duration } from "./format.js";

const age = (seconds) => (seconds === null ? "–" : duration(seconds));

// How old records were when their hour was committed and verified, table by table.
export function freshnessCard({ tables }) {
  const none = empty("No hour was measured in the last 7 days.", "The pipeline's DAG measures its hour; a `sluice run` measures none.");
  return section("Freshness", table("Freshness by table", [
    { name: "Table", value: (r) => r.table },
    { name: "p50, 24 h", number: true, value: (r) => age(r.p50_day), title: "Half of the records were at most so old when they were committed and verified" },
    { name: "p99, 24 h", number: true, value: (r) => age(r.p99_day) },
    { name: "p50, 7 d", number: true, value: (r) => age(r.p50_week) },
    { name: "p99, 7 d", number: true, value: (r) => age(r.p99_week) },
    { name: "Records, 24 h", number: true, value: (r) => count(r.records_day) },
    { name: "Newest hour", value: (r) => r.newest || "–" },
    { name: "Verified", value: (r) => (r.verified ? time(r.verified) : "–") },
  ], tables.some((row) => row.newest) ? tables : [], none));
}
