// A backfill that was started: its progress step by step, its end, and what it did.
import * as api from "./api.js";
import { h, replace, table } from "./dom.js";
import { bytes, count, duration, rate } from "./format.js";
import { airflowLink } from "./links.js";
import { said as why, stepTable } from "./runs.js";

const ENDED = ["success", "failed", "cancelled"];
const POLL_MS = 2000;
const LATE_MS = 20000; // what a task that is ended was about to commit may come for so long

// Until the run has ended, or something else is shown. `ended` is called once it has.
export async function follow(answer, name, runId, { mayStart, ended }) {
  const bar = h("progress", { max: "1", value: "0", "aria-label": "How much of the run is done" });
  const said = h("p", { class: "progress", data: { state: "queued" } }, "Queued.");
  const [title, link, steps, end] = [h("h3", {}, "Queued"), h("p", {}), h("div", {}), h("div", { class: "buttons" })];
  replace(answer, title, bar, said, link, steps, end);
  let [cancel, over] = [null, null];
  while (answer.isConnected && bar.isConnected) {
    const now = await api.progress(name, runId).catch((error) => {
      if (error.status === 404) throw error;
      return null; // the server comes back
    });
    if (now) {
      if (!cancel) {
        replace(link, airflowLink(api.runUrl(now.dag_id, runId), `${now.dag_id} · ${runId}`));
        cancel = cancelButton(now.dag_id, runId);
        if (mayStart) replace(end, cancel);
      }
      show(now, { title, bar, said, steps });
      if (ENDED.includes(now.state)) {
        over ??= Date.now();
        replace(end, h("div", { class: "did" }, now.state !== "cancelled" && why(now, { whole: true }), h("p", {}, summary(now)), advice(now, name), stepTable(now.did)));
        await ended();
        if (now.state !== "cancelled" || Date.now() - over > LATE_MS) return;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function show(now, { title, bar, said, steps }) {
  bar.hidden = ENDED.includes(now.state);
  bar.value = now.share; // of the steps of all batches: one batch may be the whole run
  title.textContent = now.heading;
  said.dataset.state = now.state;
  said.textContent = now.said;
  const left = steps.querySelector(".scroll")?.scrollTop ?? 0;
  replace(steps, table("Steps", [
    { name: "Step", value: (r) => r.step }, { name: "Batches", number: true, value: (r) => count(r.batches) }, { name: "Done", number: true, value: (r) => count(r.done) },
    { name: "At work", number: true, value: (r) => count(r.running) }, { name: "Waiting", number: true, title: "Their turn is to come", value: (r) => count(r.waiting) },
    { name: now.state === "cancelled" ? "Ended" : "Failed", number: true, value: (r) => count(r.failed) }, { name: "Skipped", number: true, title: "The run is for other tables, or had nothing to do", value: (r) => count(r.skipped) },
    { name: "Not begun", number: true, title: "A step before it failed, or the run was ended", value: (r) => count(r.held) },
  ], now.steps.map((one) => ({ ...one, tone: one.failed ? "bad-row" : "" })), "No batch is known yet."));
  if (left) steps.querySelector(".scroll").scrollTop = left;
}

function summary(now) {
  const seconds = (Date.parse(now.ended) - Date.parse(now.started)) / 1000;
  const of = (step) => now.did.filter((one) => one.step === step);
  const sum = (rows, key) => rows.reduce((total, one) => total + one[key], 0);
  const [landed, loaded] = [of("land"), of("load")];
  const parts = [
    landed.length > 0 && `landed ${count(sum(landed, "rows"))} records (${bytes(sum(landed, "bytes"))}, ${rate(sum(landed, "rows") / Math.max(sum(landed, "seconds"), 0.1))})`,
    loaded.length > 0 && `loaded ${count(sum(loaded, "rows"))} rows into ${loaded.length === 1 ? loaded[0].table : `${loaded.length} tables`}`,
  ].filter(Boolean);
  const did = parts.length ? parts.join(", ") : "moved nothing";
  return `It took ${duration(Number.isFinite(seconds) ? seconds : null)} and ${did}.`;
}

// What comes next; the server says whether a fill is enough.
function advice(now, name) {
  const late = now.state === "cancelled" && "Its tasks end within seconds, and what they were about to commit may still come. ";
  const stays = now.state !== "success" && "What is done stays. ";
  const next = now.advice === "fill" ? "A fill of the same range completes what is left." : now.advice === "attention" && ["A fill alone does not complete this range: ", h("a", { href: `#/p/${encodeURIComponent(name)}` }, "see what needs attention"), "."];
  return late || stays || next ? h("p", { class: "next" }, late, stays, next) : null;
}

// Asks once more: what is at work is ended.
function cancelButton(dag, runId) {
  const note = h("span", { class: "quiet", role: "status" });
  const button = h("button", { type: "button", onclick: async () => {
    if (button.dataset.sure !== "yes") {
      button.dataset.sure = "yes";
      button.textContent = "Cancel for good";
      note.textContent = "What has landed and loaded stays. Tasks at work end within seconds, and what they are about to commit may still come.";
      return;
    }
    button.disabled = true;
    await api.cancelRun(dag, runId).then(() => { note.textContent = "Airflow ends it."; }, (error) => {
      button.disabled = false;
      note.textContent = error.message;
    });
  } }, "Cancel");
  return [button, note];
}
