import * as api from "./api.js";
import { h, replace, section, table } from "./dom.js";
import { clock, count } from "./format.js";
import { airflowLink } from "./links.js";

const MODES = [
  ["fill", "only what is missing or stale"],
  ["refill", "also hours that were loaded before a column was added, and may have its field"],
  ["reload", "loads ClickHouse again from the lake; Kafka is not needed"],
  ["reland", "reads Kafka again with the same boundaries, and replaces the hours everywhere"],
];
const ENDED = ["success", "failed"];
const POLL_MS = 2000;

export function backfillForm(place, name, row, data) {
  const mayStart = row.can_start;
  const start = h("input", { type: "datetime-local", name: "from", required: true, step: "900", value: data.start.slice(0, 16), disabled: !mayStart });
  const end = h("input", { type: "datetime-local", name: "to", required: true, step: "900", value: lastWholeHour(data), disabled: !mayStart });
  const modes = MODES.map(([mode, what], index) => h("label", { class: "choice" }, h("input", { type: "radio", name: "mode", value: mode, checked: index === 0, disabled: !mayStart }), h("span", {}, h("b", {}, mode), ` ${what}`)));
  const tables = (row.tables ?? []).map((each) => h("label", { class: "choice" }, h("input", { type: "checkbox", name: "table", value: each }), h("span", {}, each)));
  const answer = h("div", { class: "plan", "aria-live": "polite" });
  const form = h(
    "form", { "aria-label": "Backfill" },
    h("div", { class: "fields" }, h("label", {}, "From (UTC)", start), h("label", {}, "To (UTC, not included)", end)),
    h("fieldset", {}, h("legend", {}, "Mode"), modes),
    tables.length > 1 && h("fieldset", {}, h("legend", {}, "Tables (none: all; of some, no event hour is marked complete)"), tables),
    h("button", { type: "submit", class: "primary", disabled: !mayStart }, "Show the plan"),
    !mayStart && h("p", { class: "quiet" }, "Your role may read, but not start runs."),
  );
  const asked = () => {
    const given = new FormData(form);
    return { start: `${start.value}Z`, end: `${end.value}Z`, mode: given.get("mode"), tables: given.getAll("table") };
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    showPlan(answer, name, asked());
  });
  form.addEventListener("input", () => replace(answer)); // a plan is for what was asked, not for what is changed since
  replace(place, section("Backfill", form, answer));
  return form;
}

function lastWholeHour(data) {
  const end = Math.min(Date.parse(data.end), Math.floor(Date.parse(data.now) / 3600000) * 3600000);
  return new Date(end).toISOString().slice(0, 16);
}

async function showPlan(answer, name, asked) {
  replace(answer, h("p", { class: "quiet" }, "Asking the lake, ClickHouse and Kafka…"));
  try {
    const plan = await api.plan(name, asked);
    const work = Object.entries(plan.actions).some(([action]) => action !== "nothing" && action !== "wait");
    const start = h("button", { type: "button", class: "primary", disabled: !work, onclick: () => begin(answer, name, plan, start) }, "Start");
    const does = Object.entries(plan.actions).map(([action, number]) => h("li", {}, h("b", {}, count(number)), ` ${action}`));
    replace(
      answer, h("h3", {}, `The plan: ${clock(plan.start)} to ${clock(plan.end)} UTC, ${count(plan.slices)} slices, mode ${plan.mode}${plan.tables.length ? `, only ${plan.tables.join(", ")}` : ""}`),
      h("ul", { class: "does" }, does, h("li", {}, h("b", {}, count(plan.offsets)), " offsets to land"), h("li", {}, h("b", {}, count(plan.reads)), " reads"), h("li", {}, h("b", {}, count(plan.batches)), plan.batches === 1 ? " batch" : " batches")),
      work && h("p", { class: "time" }, "Time: ", h("b", {}, plan.time)),
      plan.waiting.map((line) => h("p", { class: "warn" }, line)),
      lines(plan), h("div", { class: "buttons" }, start, !work && h("span", { class: "quiet" }, "There is nothing to do.")),
    );
  } catch (error) {
    replace(answer, h("p", { class: "error", role: "alert" }, error.message));
  }
}

const lines = (plan) => h("div", {}, table("The plan, slice by slice", [
  { name: "Slice", value: (r) => r.slice }, { name: "Cluster", value: (r) => r.cluster }, { name: "State", value: (r) => r.state },
  { name: "Does", value: (r) => r.action }, { name: "Offsets", number: true, value: (r) => count(r.offsets) },
  { name: "Reads", number: true, value: (r) => count(r.reads) }, { name: "Kafka no longer has", value: (r) => r.lost }, { name: "Lacks topics", value: (r) => r.lacking },
], plan.lines), plan.lines.length < plan.units && h("p", { class: "quiet" }, `The first ${plan.lines.length} of ${count(plan.units)}.`));

async function begin(answer, name, plan, button) {
  button.disabled = true;
  try {
    const run = await api.startBackfill(plan.dag_id, { from: plan.start, to: plan.end, mode: plan.mode, dry_run: false, ...(plan.tables.length ? { tables: plan.tables } : {}) });
    await follow(answer, name, plan, run.dag_run_id);
  } catch (error) {
    button.disabled = false;
    answer.append(h("p", { class: "error", role: "alert" }, error.message));
  }
}

async function follow(answer, name, plan, runId) {
  const bar = h("progress", { max: "1", value: "0", "aria-label": "How much of the run is done" });
  const said = h("p", { class: "progress", data: { state: "queued" } }, "Queued.");
  replace(answer, h("h3", {}, "Running"), bar, said, h("p", {}, airflowLink(api.runUrl(plan.dag_id, runId), `${plan.dag_id} · ${runId}`)));
  while (answer.isConnected && bar.isConnected) {
    const now = await api.progress(name, runId);
    const ended = ENDED.includes(now.state);
    bar.value = now.share; // of the steps of all batches: one batch may be the whole run
    said.dataset.state = now.state;
    said.textContent = sentence(now);
    if (ended) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function sentence(now) {
  const tasks = Object.entries(now.tasks).map(([state, number]) => `${number} ${state}`).join(", ");
  const slices = now.slices ? `${count(now.slices_done)} of ${count(now.slices)} slices done` : "no slice has work yet";
  const phase = now.phase ? `, now ${now.phase}` : "";
  return `${now.state}: ${now.state === "success" ? "all done" : slices + phase}. Tasks: ${tasks}.`;
}
