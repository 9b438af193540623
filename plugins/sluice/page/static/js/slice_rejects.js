// Rejected records by reason and column, with what to do and at most three samples of each.
import * as api from "./api.js";
import { badge, card, empty, h, prose, replace, table } from "./dom.js";
import { count, percent, rejectedRecords as rejectedRecordsOf, rejectedRows as rejectedRowsOf } from "./format.js";

const WITHHELD = {
  hidden: "Payloads and values are hidden: `page: {payloads: hidden}` in the pipeline file.",
  masked: "Payloads have the types of values in place of the values. With `page: {payloads: shown}` in the pipeline file, users who have the right `Sluice Payloads` and may edit the DAG see all values.",
};

export async function rejectsCard(place, name, id, data) {
  const number = (key) => data.counts.find((row) => row.name === key)?.now ?? 0;
  const [rejectedRecords, rejected_rows] = [number("Rejected records"), number("Rejected rows")];
  const read = Math.max(number("Records read"), number("Rows landed") + rejectedRecords);
  if (rejectedRecords + rejected_rows === 0) return replace(place, card("Rejected records", {}, empty("No record of this hour was rejected.")));
  const found = await api.rejected(name, id).catch((error) => ({ error }));
  // Those of a table that is gone are still there, though the ledger's count of them went with it.
  const listed = (found.groups ?? []).reduce((sum, group) => sum + (group.kind === "row" ? group.records : 0), 0);
  const there = Math.max(rejected_rows, listed);
  const badges = [badge(rejectedRecordsOf(rejectedRecords), rejectedRecords ? "warn" : ""), badge(rejectedRowsOf(there), there ? "warn" : "")];
  const body = found.error
    ? h("p", { class: "error", role: "alert" }, found.error.message)
    : [WITHHELD[found.payloads] && h("p", { class: "quiet" }, prose(WITHHELD[found.payloads])), found.groups.map((group, index) => groupOf(group, landedFor(data, group) ?? read, found.payloads, index)), found.more > 0 && h("p", { class: "quiet" }, `${count(found.more)} more ${found.more === 1 ? "group is" : "groups are"} in sluice.rejected.`)];
  return replace(place, card("Rejected records", { badges }, body));
}

// A rejected row counts among those that landed for its table, a rejected record among all.
const landedFor = (data, group) => (group.kind === "row" ? data.tables.find((one) => one.table === group.table)?.landed : null);

// The first groups are open: what there is most of is what has to be seen.
function groupOf(group, rows, payloads, index) {
  const where = group.column ? `${group.table}.${group.column}: ` : "";
  return h(
    "details", { class: "reject", open: index < 3 },
    h("summary", {}, h("b", {}, `${where}${group.reason}`), h("span", { class: "quiet" }, ` ${(group.kind === "row" ? rejectedRowsOf : rejectedRecordsOf)(group.records)}, ${percent(group.records / Math.max(rows, 1))} of ${group.kind === "row" ? group.table : "all records"}`)),
    h("p", { class: "advice" }, prose(group.advice)),
    table(`Samples: ${where}${group.reason}`, [
      { name: "Where", class: "nowrap", value: (r) => `${r.cluster}/${r.topic}/${r.partition} @ ${count(r.offset)}` },
      ...(group.kind === "row" && payloads === "shown" ? [{ name: "Value", class: "code", value: (r) => r.value }] : []),
      ...(payloads === "hidden" ? [] : [{ name: "Payload", class: "code payload", value: (r) => r.payload }]),
    ], group.samples, group.forgotten === group.records ? "The lake has forgotten their bytes." : "No sample could be read: verify says whether its file is there."),
  );
}
