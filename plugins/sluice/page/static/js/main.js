import { Refused } from "./api.js";
import { h, keepTimes, replace } from "./dom.js";
import { overviewView } from "./overview.js";
import * as router from "./router.js";

const view = document.getElementById("view");
const panel = document.getElementById("panel");
const trail = document.getElementById("trail");
let shown = null; // {key, stop()} of the view, that of an hour's panel aside
let hour = null; // the address of the open hour

function show(route) {
  const below = route.view === "slice" ? router.behind(route) : route;
  showView(below);
  if (route.view === "slice") showHour(route);
  else if (panel.open) panel.close();
}

// A tab or a filter changes a view that is there: it listens to the router itself.
const keyOf = ({ view: name, pipeline = "", query }) => JSON.stringify(name === "backfill" ? [name, pipeline] : [name, pipeline, query.from ?? null, query.to ?? null]);

async function showView(route) {
  const key = keyOf(route);
  if (shown?.key === key) return;
  shown?.stop();
  document.title = route.pipeline ? `${route.pipeline} · Sluice` : "Sluice";
  replace(trail, route.pipeline && h("span", { "aria-current": "page" }, route.pipeline));
  const mine = { key, stop: () => {} };
  shown = mine;
  const started = LATER[route.view] ? later(route) : overviewView(view, route.query);
  const stop = await started.catch(showError);
  if (!stop) return;
  if (shown === mine) mine.stop = stop;
  else stop();
}

async function showHour({ pipeline, slice }) {
  const mine = `${pipeline}/${slice}`;
  if (hour === mine && panel.open) return;
  hour = mine;
  await hourView(panel, pipeline, slice).catch((error) => replace(panel, errorBox(error)));
  if (hour !== mine || router.current().view !== "slice") return;
  markCell(`${pipeline} ${slice}`);
  if (!panel.open) panel.showModal();
  else if (!panel.contains(document.activeElement)) panel.querySelector("[autofocus]")?.focus(); // its link has gone
}

function markCell(key) {
  for (const cell of view.querySelectorAll(".cell[aria-current]")) cell.removeAttribute("aria-current");
  if (key) view.querySelector(`.cell[data-key="${CSS.escape(key)}"]`)?.setAttribute("aria-current", "true");
}

// With its plots it is the largest part of the page, and the overview is there without it.
const LATER = {
  pipeline: async (route) => (await import("./pipeline.js")).pipelineView(view, route.pipeline, route.query),
  backfill: async (route) => (await import("./backfill.js")).backfillView(view, route.pipeline),
};

async function later(route) {
  document.getElementById("plots").media = "all";
  return LATER[route.view](route);
}

const hourView = async (...given) => (await import("./slice.js")).sliceView(...given);

function errorBox(error) {
  if (!(error instanceof Refused)) console.error(error);
  return h("p", { class: "error", role: "alert" }, error.message);
}

function showError(error) {
  replace(view, errorBox(error));
}

panel.addEventListener("close", () => {
  replace(panel);
  markCell(null);
  hour = null;
  const route = router.current();
  if (route.view === "slice") router.go(router.behind(route));
});
// Beside the panel, a click opens the hour there, or closes the panel.
panel.addEventListener("click", ({ target, clientX: x, clientY: y }) => {
  if (target !== panel || x >= panel.getBoundingClientRect().left) return;
  const cell = [...view.querySelectorAll(".cell")].find((one) => holds(one.getBoundingClientRect(), x, y));
  if (cell) cell.click();
  else panel.close();
});
const holds = (box, x, y) => x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;
panel.addEventListener("keydown", (event) => {
  const side = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  if (!side || event.ctrlKey || event.metaKey || event.altKey || event.target.closest(".scroll, input, select, textarea, pre")) return;
  panel.querySelector(`.panel-head a[rel="${side}"]`)?.click();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address is no view
  view.focus();
});
router.onRoute(show);
router.start();
keepTimes();
