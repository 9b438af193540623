// The plan of a backfill: what it would do, how long that takes, and what it takes away. Nothing starts before it.
import * as api from "./api.js";
import { badge, h, loading, replace, stats, table } from "./dom.js";
import { bytes, clock, count, counted } from "./format.js";

const IDLE = new Set(["nothing", "wait", "wait for the cluster"]);

// `started` is called with the id of the run that was started; `why` says why the plan is made once more.
export async function showPlan(answer, name, asked, started, why = "") {
  replace(answer, h("p", { class: "quiet" }, "Asking the lake, ClickHouse and Kafka…"), loading("160px", "Planning"));
  const mine = answer.firstChild;
  try {
    const plan = await api.plan(name, asked);
    if (answer.firstChild === mine) replace(answer, why && h("p", { class: "warn", role: "status" }, why), planned(answer, plan, { name, asked, started }));
  } catch (error) {
    if (answer.firstChild === mine) replace(answer, h("p", { class: "error", role: "alert" }, error.message));
  }
}

function planned(answer, plan, context) {
  const work = Object.entries(plan.actions).some(([action]) => !IDLE.has(action));
  const rows = plan.replaces.filter((one) => one.place !== "lake").reduce((sum, one) => sum + one.rows, 0);
  const label = rows ? `Start: replace ${count(rows)} rows` : "Start";
  const stopped = plan.stops.length > 0;
  const note = h("span", { class: "quiet", role: "status" }, stopped ? "The run would stop at once: clear what is in its way first." : work ? "" : "There is nothing to do.");
  const start = h("button", { type: "button", class: plan.asks.length ? "" : "primary", disabled: !work || stopped, onclick: () => {
    if (plan.asks.length && start.dataset.sure !== "yes") {
      start.dataset.sure = "yes";
      start.textContent = "Start all the same";
      note.textContent = "Something is in its way, as said above. Start it all the same?";
      return;
    }
    begin(answer, plan, start, context);
  } }, label);
  const does = Object.entries(plan.actions).map(([action, number]) => h("li", {}, h("b", {}, count(number)), ` ${action}`));
  return [
    h("h3", {}, `The plan: ${clock(plan.start)} to ${clock(plan.end)} UTC, ${counted(plan.slices, "slice")}, mode ${plan.mode}${plan.missing_columns ? ", missing columns" : ""}${plan.tables.length ? `, only ${plan.tables.join(", ")}` : ""}`),
    h("ul", { class: "does" }, does, h("li", {}, h("b", {}, count(plan.offsets)), " offsets to land"), h("li", {}, h("b", {}, count(plan.reads)), plan.reads === 1 ? " read" : " reads"), h("li", {}, h("b", {}, count(plan.batches)), plan.batches === 1 ? " batch" : " batches")),
    work && stats([
      { label: "Records", value: count(plan.rows), note: "at most" },
      { label: "Size in the lake", value: plan.bytes === null ? "unknown" : bytes(plan.bytes), note: plan.bytes === null ? "no hour of it has landed" : plan.estimated ? "estimated from what has landed" : "of its files" },
    ]),
    work && h("p", { class: "time" }, "Time: ", h("b", {}, plan.time)),
    obstacles(plan.obstacles), replaced(plan.replaces), plan.waiting.map((line) => h("p", { class: "warn" }, line)),
    lines(plan), h("div", { class: "buttons" }, start, note),
  ];
}

function obstacles(found) {
  if (!found.length) return null;
  return h("div", { class: "obstacles warn-line" }, h("p", {}, h("b", {}, "In its way"), ":"), h("ul", {}, found.map((one) => h("li", {}, one))));
}

function replaced(found) {
  if (!found.length) return h("p", { class: "replaces" }, badge("replaces nothing", "good"), " What is there stays as it is.");
  return h("div", { class: "replaces warn-line" }, h("p", {}, h("b", {}, "It replaces what is there"), ": of each hour the old rows are deleted, then the new ones come."), h("ul", {}, found.map((one) => h("li", {}, h("b", {}, one.place === "lake" ? "the lake" : one.place), `: ${count(one.rows)} rows of ${count(one.units)} ${one.units === 1 ? "hour" : "hours"}${one.bytes ? `, ${bytes(one.bytes)}` : ""}`))));
}

const lines = (plan) => h("div", {}, table("The plan, slice by slice", [
  { name: "Slice", value: (r) => r.slice }, { name: "Cluster", value: (r) => r.cluster }, { name: "State", value: (r) => r.state },
  { name: "Does", value: (r) => r.action }, { name: "Offsets", number: true, value: (r) => count(r.offsets) },
  { name: "Reads", number: true, value: (r) => count(r.reads) }, { name: "Kafka no longer has", value: (r) => r.lost }, { name: "Lacks topics", value: (r) => r.lacking },
], plan.lines), plan.lines.length < plan.units && h("p", { class: "quiet" }, `The first ${plan.lines.length} of ${count(plan.units)}.`));

// A run over these hours that the plan does not know: another tab, or somebody else, has started it since.
async function unknownRun(name, plan) {
  const [start, end] = [Date.parse(plan.start), Date.parse(plan.end)];
  const { runs } = await api.backfills(name);
  return runs.some((run) => ["running", "queued"].includes(run.state) && !plan.at_work.includes(run.run_id) && Date.parse(run.start) < end && start < Date.parse(run.end));
}

async function begin(answer, plan, button, { name, asked, started }) {
  button.disabled = true;
  try {
    if (await unknownRun(name, plan)) {
      await showPlan(answer, name, asked, started, "A run over these hours has been started since this plan was made. This is the plan as of now.");
      return;
    }
    const run = await api.startBackfill(plan.dag_id, plan.run, { from: plan.start, to: plan.end, mode: plan.mode, dry_run: false, ...(plan.missing_columns ? { missing_columns: true } : {}), ...(plan.tables.length ? { tables: plan.tables } : {}) });
    await started(run.dag_run_id);
  } catch (error) {
    button.disabled = false;
    answer.append(h("p", { class: "error", role: "alert" }, error.message));
  }
}
