// The steps over an hour as bars on one time axis, newest run first, and the runs of Airflow.
import * as api from "./api.js";
import { card, empty, h, table } from "./dom.js";
import { clock, count, duration, rate } from "./format.js";
import { airflowLink } from "./links.js";

const GAP_MS = 15 * 60 * 1000; // longer without a step: another run

export function stepsCard(data) {
  const runs = attempts(data.timings);
  return card(
    "Steps", {},
    runs.length ? runs.map((steps, index) => (index === 0 ? gantt(steps) : h("details", {}, h("summary", {}, `Before that, ${clock(steps[0].started)} UTC`), gantt(steps)))) : empty("No step has been timed yet.", "A step that has done something notes how long it took."),
    h("h3", { class: "under" }, "Airflow runs"), runsTable(data.runs),
  );
}

// Steps in the order in which they began, cut where nothing went on for long; the newest part first.
function attempts(timings) {
  const parts = [];
  let until = -Infinity;
  for (const one of timings) {
    const start = Date.parse(one.started);
    if (start - until > GAP_MS) parts.push([]);
    parts.at(-1).push({ ...one, at: start, until: start + one.seconds * 1000 });
    until = Math.max(until, start + one.seconds * 1000);
  }
  return parts.reverse();
}

function gantt(steps) {
  const first = Math.min(...steps.map((one) => one.at));
  const whole = Math.max(...steps.map((one) => one.until)) - first || 1;
  const rows = steps.map((one) => h(
    "li", {},
    h("span", { class: "step" }, one.step, one.table && h("span", { class: "quiet" }, ` ${one.table}`)),
    h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: `bar-of ${one.step}`, css: { "--at": `${((one.at - first) / whole) * 100}%`, "--long": `${((one.until - one.at) / whole) * 100}%` } })),
    h("span", { class: "number took" }, duration(one.seconds)),
    h("span", { class: "number quiet rows" }, one.rows ? `${count(one.rows)} rows, ${rate(one.rows / Math.max(one.seconds, 0.001))}` : ""),
  ));
  const batch = steps.find((one) => one.units > 1);
  return h(
    "div", {}, h("p", { class: "quiet" }, `From ${clock(steps[0].started)} UTC, ${duration(whole / 1000)} in all${steps[0].mode ? `, mode ${steps[0].mode}` : ""}${batch ? `, in a batch of ${count(batch.units)} units` : ""}.`),
    h("ol", { class: "gantt", "aria-label": "Time of each step" }, rows),
  );
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
