import * as api from "./api.js";
import { h, replace } from "./dom.js";
import { clock } from "./format.js";
import { Grid, legendList } from "./grid.js";
import { keep } from "./refresh.js";
import { format, go, sliceRoute } from "./router.js";

export const RANGES = [["48 hours", "48h"], ["7 days", "168h"], ["30 days", "720h"], ["1 year", "8760h"]];

export async function overviewView(view, range) {
  const asked = { from: range.from ?? "48h", to: range.to ?? "now" };
  const grid = new Grid(openCell);
  const problems = h("div", { "aria-live": "polite" });
  const legend = h("div");
  replace(view, h("div", { class: "bar" }, h("h1", {}, "Hours"), rangePicker(asked, { view: "overview" })), problems, h("div", { class: "card wide" }, grid.element), legend);
  return keep(async () => {
    const data = await api.overview(asked);
    grid.show(data);
    document.getElementById("asof").textContent = `${data.user}, ${clock(data.now)} UTC`;
    replace(problems, data.broken_files.map((line) => h("p", { class: "error" }, line)), data.pipelines.length === 0 && h("p", { class: "quiet" }, "There is no pipeline that you may see: put a file into include/pipelines, or name its folder in SLUICE_PIPELINES."));
    if (!legend.childElementCount) replace(legend, legendList(data.legend));
    return data.pipelines.some((row) => row.cells.some((cell) => cell.running));
  }, (error) => replace(problems, h("p", { class: "error", role: "alert" }, error.message)));
}

function openCell(pipeline, id) {
  if (id.includes("T")) return go(sliceRoute(pipeline, id));
  go({ view: "overview", query: { from: id, to: nextDay(id) } });
}

function nextDay(date) {
  return new Date(Date.parse(`${date}T00:00Z`) + 86400000).toISOString().slice(0, 10);
}

// `route` is that of the view whose range it is.
export function rangePicker(asked, route) {
  const to = (from, until) => ({ ...route, query: { ...route.query, from, to: until } });
  const presets = RANGES.map(([name, from]) => h("a", { class: "button", href: format(to(from, "now")), "aria-current": asked.from === from && asked.to === "now" ? "true" : null }, name));
  const own = !RANGES.some(([, from]) => asked.from === from && asked.to === "now");
  const first = h("input", { type: "date", name: "from", "aria-label": "First day", value: own ? asked.from.slice(0, 10) : "" });
  const end = h("input", { type: "date", name: "to", "aria-label": "End, not included", value: own ? asked.to.slice(0, 10) : "" });
  const custom = h("form", { class: "custom", onsubmit: (event) => {
    event.preventDefault();
    if (first.value) go(to(first.value, end.value || "now"));
  } }, first, "–", end, h("button", { type: "submit" }, "Show"));
  return h("div", { class: "ranges", role: "group", "aria-label": "Range" }, h("div", { class: "segments" }, presets), custom);
}
