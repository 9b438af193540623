// The steps over an hour as bars on one time axis for each run, the newest first, and the runs of Airflow.
import * as api from "./api.js";
import { card, empty, h, table } from "./dom.js";
import { clock, count, duration, rate } from "./format.js";
import { airflowLink } from "./links.js";

const COMMAND = /^[0-9a-f]{32}$/; // the token of a `sluice run`

export function stepsCard(data) {
  const [newest, ...older] = data.step_runs;
  return card(
    "Steps", {},
    newest ? gantt(newest, data.runs) : empty("No step has been timed yet.", "A step that has done something notes how long it took."),
    older.map((run) => h("details", {}, h("summary", {}, `Before that, ${clock(run.started)} UTC`), gantt(run, data.runs))),
    h("h3", { class: "under" }, "Airflow runs"), runsTable(data.runs),
  );
}

function gantt({ run, started, seconds, steps }, runs) {
  const first = Date.parse(started);
  const share = (ms) => `${(ms / (seconds * 1000 || 1)) * 100}%`;
  const rows = steps.map((one) => h(
    "li", {},
    h("span", { class: "step" }, one.step, one.table && h("span", { class: "quiet" }, ` ${one.table}`)),
    h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: `bar-of ${one.step}`, css: { "--at": share(Date.parse(one.started) - first), "--long": share(one.seconds * 1000) } })),
    h("span", { class: "number took" }, duration(one.seconds)),
    h("span", { class: "number quiet rows" }, one.rows ? `${count(one.rows)} rows, ${rate(one.rows / Math.max(one.seconds, 0.001))}` : ""),
  ));
  const mode = steps.find((one) => one.mode)?.mode;
  const batch = steps.find((one) => one.units > 1);
  return h(
    "div", {}, h("p", { class: "quiet" }, runName(run, runs), `: from ${clock(started)} UTC, ${duration(seconds)} in all${mode ? `, mode ${mode}` : ""}${batch ? `, in a batch of ${count(batch.units)} units` : ""}.`),
    h("ol", { class: "gantt", "aria-label": "Time of each step" }, rows),
  );
}

// What the times are of.
function runName(run, runs) {
  const known = runs.find((one) => one.run_id === run);
  if (known) return ["Run ", airflowLink(api.runUrl(known.dag_id, run), `${known.dag_id} · ${run}`)];
  if (!run) return "A run that is not known";
  return COMMAND.test(run) ? ["A ", h("code", {}, "sluice run")] : `Run ${run}`;
}

function runsTable(found) {
  const rows = found.flatMap((run) => run.tasks.map((task, index) => ({ ...task, run, first: index === 0, tone: task.state === "failed" ? "bad-row" : "" })));
  return table("Airflow runs and attempts", [
    { name: "Run", value: (r) => (r.first ? airflowLink(api.runUrl(r.run.dag_id, r.run.run_id), `${r.run.dag_id} · ${r.run.run_id}`) : "") },
    { name: "Task", value: (r) => airflowLink(api.taskUrl(r.run.dag_id, r.run.run_id, r), r.task_id) },
    { name: "State", value: (r) => r.state },
    { name: "Attempts", number: true, value: (r) => r.tries },
    { name: "Began (UTC)", class: "nowrap", value: (r) => clock(r.started) },
    { name: "Took", number: true, value: (r) => duration(r.seconds) },
  ], rows, "No run of Airflow has touched this hour; `sluice run` may have.");
}
