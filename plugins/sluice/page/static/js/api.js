// All requests go to this page's own endpoints, or to Airflow's REST API with the caller's own session.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const SILENT = "Airflow's web server does not answer: is it still up?";
const AIRFLOW = new URL("../", document.baseURI);

const send = (url, options = {}) => read(fetch(url, { credentials: "same-origin", ...options }));

async function read(asked) {
  let answer;
  try {
    answer = await asked;
  } catch {
    throw new Refused(0, SILENT);
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  if (answer.status === 401) throw new Refused(401, "Your session has ended: log in to Airflow again.");
  const detail = typeof body.detail === "string" ? body.detail : `the server answered ${answer.status}`;
  throw new Refused(answer.status, detail);
}

const json = (method, body) => ({ method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
const path = (...parts) => ["api", ...parts.map(encodeURIComponent)].join("/");
const query = (values) => `?${new URLSearchParams(values)}`;

// The first one may be on its way already: early.js.
export function overview(range) {
  const url = path("overview") + query(range);
  const early = window.early;
  window.early = null;
  return early?.url === url ? read(early.answer) : send(url);
}

export const slice = (name, id) => send(path("pipelines", name, "slices", id));
export const rejected = (name, id) => send(path("pipelines", name, "slices", id, "rejected"));
export const rowsNow = (name, id) => send(path("pipelines", name, "slices", id, "rows"));
export const manifest = (name, id, cluster) => send(path("pipelines", name, "slices", id, "manifests", cluster));
export const lagNow = (name) => send(path("pipelines", name, "lag-now"));
export const lag = (name) => send(path("pipelines", name, "lag"));
export const series = (name, range) => send(path("pipelines", name, "series") + query(range));
export const late = (name, range) => send(path("pipelines", name, "late") + query(range));
export const freshness = (name) => send(path("pipelines", name, "freshness"));
export const checks = (name) => send(path("pipelines", name, "checks"));
export const tables = (name, range) => send(path("pipelines", name, "tables") + query(range));
export const lagTrend = (name, range) => send(path("pipelines", name, "lag_trend") + query(range));
export const retention = (name) => send(path("pipelines", name, "retention"));
export const changes = (name) => send(path("pipelines", name, "changes"));
export const sizes = (name) => send(path("pipelines", name, "sizes"));
export const runs = (name, range) => send(path("pipelines", name, "runs") + query(range));
export const backfills = (name) => send(path("pipelines", name, "backfills"));
export const plan = (name, asked) => send(path("pipelines", name, "plan"), json("POST", asked));
export const recreate = (name, table) => send(path("pipelines", name, "tables", table), json("POST", {}));
export const release = (name, slice, table) => send(path("pipelines", name, "slices", slice, "release", table), json("POST", {}));
export const progress = (name, run) => send(path("pipelines", name, "progress") + query({ run }));

// Airflow itself decides who may start a run, and keeps its audit log. The run's id says its range and mode.
export async function startBackfill(dag, name, conf) {
  const dag_run_id = `${name}__${new Date().toISOString().replace(/[-:]/g, "")}`;
  const url = new URL(`api/v2/dags/${encodeURIComponent(dag)}`, AIRFLOW);
  await send(url, json("PATCH", { is_paused: false }));
  return send(`${url}/dagRuns`, json("POST", { dag_run_id, logical_date: null, conf }));
}

// Airflow ends the tasks that are at work; whoever may not gets its refusal.
export function cancelRun(dag, run) {
  const url = new URL(`api/v2/dags/${encodeURIComponent(dag)}/dagRuns/${encodeURIComponent(run)}`, AIRFLOW);
  return send(url, json("PATCH", { state: "failed", note: "Cancelled on Sluice's page" }));
}

// The last error of a try's log, with the caller's own right to read logs; null where it holds none.
export async function lastError({ dag_id: dag, run_id: run, task_id: task, map_index: index, tries }) {
  const place = ["dags", dag, "dagRuns", run, "taskInstances", task, "logs", tries].map(encodeURIComponent).join("/");
  const { content } = await send(new URL(`api/v2/${place}?map_index=${index}`, AIRFLOW), { headers: { Accept: "application/json" } });
  const detail = (Array.isArray(content) ? content : []).findLast((entry) => entry?.error_detail?.length)?.error_detail[0];
  return detail ? String(detail.exc_value || detail.exc_type).slice(0, 2000) : null;
}

export const dagUrl = (dag) => new URL(`dags/${encodeURIComponent(dag)}`, AIRFLOW).href;
export const runUrl = (dag, run) => new URL(`dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}`, AIRFLOW).href;

export function taskUrl(dag, run, task) {
  const mapped = task.map_index >= 0 ? `/mapped/${task.map_index}` : "";
  return `${runUrl(dag, run)}/tasks/${encodeURIComponent(task.task_id)}${mapped}`;
}
