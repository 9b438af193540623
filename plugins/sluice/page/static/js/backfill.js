// Backfills: the form, whose fields are in the address, the plan before the start, progress, and what was done.
import * as api from "./api.js";
import { asOf, card, h, loading, replace, section } from "./dom.js";
import { clock } from "./format.js";
import { pipelineHead } from "./pipeline.js";
import { showPlan } from "./plan.js";
import { follow } from "./progress.js";
import { keep } from "./refresh.js";
import { current, onRoute, setQuery } from "./router.js";
import { runTable } from "./runs.js";

const MODES = [
  ["fill", "Fill gaps", "only what is missing or stale"],
  ["reload", "Reload from the lake", "by the pipeline file as it is; Kafka is not needed"],
  ["reland", "Read Kafka again", "with the same boundaries, and replace the hours everywhere"],
];
const MORE = [
  ["repair", "Repair", "load damaged hours again from the lake, by the rules of their own last load"],
  ["remake", "Remake", "make what has landed again out of the lake's own records, by the pipeline file as it is"],
];
const HOUR = 3600000;

export async function backfillView(view, name) {
  const [problem, place, past] = [h("div", { "aria-live": "polite" }), h("div", { class: "place backfill" }, loading("220px")), h("div", { class: "place past", hidden: true }, loading("120px"))];
  replace(view, pipelineHead(name, "backfill"), problem, place, past);
  const failed = (error) => replace(problem, h("p", { class: "error", role: "alert" }, error.message));
  let form = null;
  const stop = await keep(async () => {
    if (!form) form = await readyForm(place, name, () => showPast(past, name));
    past.hidden = false; // below the form, which has its height now
    replace(problem);
    asOf(new Date().toISOString());
    return (await showPast(past, name)).runs.some((run) => run.state === "running" || run.state === "queued");
  }, failed);
  const off = onRoute((route) => { if (route.view === "backfill" && route.pipeline === name) form?.follow(route.query); });
  return () => { off(); stop(); };
}

async function showPast(place, name) {
  const found = await api.backfills(name);
  const shape = JSON.stringify(found);
  if (place.dataset.shape !== shape) replace(place, section("Past backfills", runTable(found, "No backfill was started yet.", "The form above shows a plan first.")));
  place.dataset.shape = shape;
  return found;
}

async function readyForm(place, name, ended) {
  const data = await api.overview({ from: "1h", to: "now" });
  const row = data.pipelines.find((each) => each.pipeline === name);
  if (!row) throw new Error(`There is no pipeline ${name} that you may see.`);
  asOf(data.now, data.user);
  const form = backfillForm(place, name, row, data.now, ended);
  await form.follow(current().query);
  return form;
}

// Ranges of whole slices that are over, by the server's clock.
function presetsOf(now, slice) {
  const end = Math.floor(now / slice) * slice;
  const day = Math.floor(now / (24 * HOUR)) * 24 * HOUR;
  return [
    [slice === HOUR ? "Last whole hour" : "Last whole slice", end - slice, end], ["Last 24 hours", end - 24 * HOUR, end],
    ["Yesterday", day - 24 * HOUR, day], ["The day before", day - 48 * HOUR, day - 24 * HOUR], ["Last 7 days", end - 168 * HOUR, end],
  ];
}

const iso = (instant) => `${new Date(instant).toISOString().slice(0, 16)}Z`;

function backfillForm(place, name, row, now, ended) {
  const mayStart = row.can_start;
  const [, first, last] = presetsOf(Date.parse(now), row.slice_seconds * 1000)[0];
  const edge = (key, value) => h("input", { type: "text", name: key, required: true, maxlength: "40", size: "20", spellcheck: "false", autocomplete: "off", placeholder: "2026-11-20T10:00Z", value, disabled: !mayStart });
  const [start, end] = [edge("from", iso(first)), edge("to", iso(last))];
  const choice = ([mode, title, what]) => h("label", { class: "choice" }, h("input", { type: "radio", name: "mode", value: mode, checked: mode === "fill", disabled: !mayStart }), h("span", {}, h("b", {}, title), `: ${what} `, h("code", { class: "quiet" }, mode)));
  const box = h("input", { type: "checkbox", name: "missing_columns", disabled: !mayStart });
  const missing = h("label", { class: "choice" }, box, h("span", {}, "With reload: only hours that were loaded before a column was added, and may have its field"));
  const more = h("details", {}, h("summary", {}, "More"), MORE.map(choice), missing);
  const tables = (row.tables ?? []).map((each) => h("label", { class: "choice" }, h("input", { type: "checkbox", name: "table", value: each }), h("span", {}, each)));
  const answer = h("div", { class: "plan", "aria-live": "polite" });
  const presets = presetsOf(Date.parse(now), row.slice_seconds * 1000).map(([title, from, to]) => h("button", { type: "button", class: "small", disabled: !mayStart, onclick: () => preset(from, to) }, title));
  const form = h(
    "form", { "aria-label": "Backfill" },
    h("div", { class: "presets", role: "group", "aria-label": "Ranges" }, presets),
    h("div", { class: "fields" }, h("label", {}, "From (UTC)", start), h("label", {}, "To (UTC, not included)", end)),
    h("fieldset", {}, h("legend", {}, "Mode"), MODES.map(choice), more),
    tables.length > 1 && h("fieldset", {}, h("legend", {}, "Tables (none: all)"), h("div", { class: "choices" }, tables)),
    h("button", { type: "submit", class: "primary", disabled: !mayStart }, "Show the plan"),
    !mayStart && h("p", { class: "quiet" }, "Your role may read, but not start runs."),
  );
  let shown = null; // the query whose plan or run is shown
  const asked = () => {
    const given = new FormData(form);
    return { start: start.value.trim(), end: end.value.trim(), mode: given.get("mode"), missing_columns: box.checked, tables: given.getAll("table") };
  };
  const queryOf = ({ start: from, end: to, mode, missing_columns: columns, tables: chosen }) => ({ from, to, mode, columns: columns ? "missing" : null, table: chosen.join(",") || null, run: null });
  const watchRun = async (run) => {
    shown = JSON.stringify({ ...queryOf(asked()), run });
    setQuery({ run });
    await follow(answer, name, run, { mayStart, ended }).catch((error) => replace(answer, h("p", { class: "error", role: "alert" }, error.message)));
  };
  function plan() {
    const wanted = asked();
    shown = JSON.stringify(queryOf(wanted));
    setQuery(queryOf(wanted));
    return showPlan(answer, name, wanted, watchRun);
  }
  function preset(from, to) {
    [start.value, end.value] = [iso(from), iso(to)];
    plan();
  }
  // Fills the form with what an address says, and shows the plan of it, or the run that it names. Ends with the plan.
  function fill(query) {
    if (query.from) start.value = query.from;
    if (query.to) end.value = query.to;
    const wanted = query.table ? query.table.split(",") : [];
    for (const one of form.querySelectorAll("[name=table]")) one.checked = wanted.includes(one.value);
    for (const radio of form.querySelectorAll("[name=mode]")) radio.checked = radio.value === (query.mode ?? "fill");
    box.checked = query.columns === "missing";
    more.open = box.checked || MORE.some(([mode]) => mode === query.mode);
    const unknown = wanted.filter((table) => !(row.tables ?? []).includes(table));
    if (query.run) watchRun(query.run); // as long as the run lasts
    else if (mayStart && unknown.length) replace(answer, h("p", { class: "error", role: "alert" }, `The pipeline has no table ${unknown.join(", ")}: choose another one.`));
    else if (mayStart && query.from && query.to) return plan();
    return null;
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    plan();
  });
  form.addEventListener("input", () => replace(answer)); // a plan is for what was asked, not for what is changed since
  replace(place, card("Backfill", {}, form, answer));
  return {
    follow(query) {
      const { from = null, to = null, mode = "fill", columns = null, table = null, run = null } = query;
      const said = JSON.stringify({ from, to, mode, columns, table, run });
      if (said === shown) return null;
      shown = said;
      return fill(query);
    },
  };
}
