import { Refused, SILENT } from "./api.js";
import { h, keepTimes, replace } from "./dom.js";
import { overviewView } from "./overview.js";
import { onAgain } from "./refresh.js";
import * as router from "./router.js";
import { frameOf, walk } from "./slice_frame.js";

const view = document.getElementById("view");
const notice = h("div", { id: "notice" });
view.before(notice);
const panel = document.getElementById("panel");
const trail = document.getElementById("trail");
let shown = null; // {key, stop()} of the view, that of an hour's panel aside
let hour = null; // the address of the open hour

function show(route) {
  const below = route.view === "slice" ? router.behind(route) : route;
  replace(notice, route.unknown && h("p", { class: "error", role: "alert" }, `There is no view ${route.unknown}: this is the overview.`));
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

const PAUSE_MS = 150; // who walks over hours asks for the one at which they stay

async function showHour({ pipeline, slice }, again = false) {
  const mine = `${pipeline}/${slice}`;
  if (hour === mine && panel.open && !again) return;
  hour = mine;
  const frame = frameOf(panel, pipeline, slice);
  markCell(`${pipeline} ${slice}`);
  if (panel.open) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  else panel.showModal();
  if (!frame.body.isConnected) return;
  await hourView(frame, pipeline, slice).catch((error) => {
    replace(frame.said);
    replace(frame.body, errorBox(error));
  });
  if (frame.body.isConnected) markCell(mine.replace("/", " ")); // its view may have come in between
}

function markCell(key) {
  for (const cell of view.querySelectorAll(".cell[aria-current]")) cell.removeAttribute("aria-current");
  if (key) view.querySelector(`.cell[data-key="${CSS.escape(key)}"]`)?.setAttribute("aria-current", "true");
}

// With its plots it is the largest part of the page, and the overview is there without it.
const LATER = {
  pipeline: async (route) => (await module("./pipeline.js")).pipelineView(view, route.pipeline, route.query),
  backfill: async (route) => (await module("./backfill.js")).backfillView(view, route.pipeline),
};

async function later(route) {
  document.getElementById("plots").media = "all";
  return LATER[route.view](route);
}

const hourView = async (...given) => (await module("./slice.js")).sliceView(...given);

// A browser's own words for a file that does not come name its address.
const module = (path) => import(path).catch(() => { throw new Refused(0, SILENT); });

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
  if (route.view === "slice") router.leave(router.behind(route));
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
  const { view: name, pipeline, slice } = router.current();
  if (name === "slice") walk(pipeline, slice, side);
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address is no view
  view.focus();
});
router.onRoute(show);
onAgain(() => { if (router.current().view === "slice") showHour(router.current(), true); });
router.start();
keepTimes();
