import { Refused } from "./api.js";
import { h, replace } from "./dom.js";
import { overviewView } from "./overview.js";
import { sliceView } from "./slice.js";

const view = document.getElementById("view");
const panel = document.getElementById("panel");
const trail = document.getElementById("trail");
let shown = null; // {key, stop()}
let behind = "#/"; // what the panel lies over

// #/ | #/p/<pipeline> | #/s/<pipeline>/<slice>; a query after ? is the range
function route() {
  const [place, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [kind, ...rest] = place.split("/").map(decodeURIComponent);
  return { kind, rest, range: Object.fromEntries(new URLSearchParams(search)) };
}

async function go() {
  const { kind, rest, range } = route();
  if (kind === "s") return openPanel(rest[0], rest[1]);
  if (panel.open) panel.close();
  behind = location.hash || "#/";
  const key = kind === "p" ? `p/${rest[0]}?${JSON.stringify(range)}` : `?${JSON.stringify(range)}`;
  if (shown?.key === key) return;
  shown?.stop();
  replace(trail, kind === "p" ? h("span", { "aria-current": "page" }, rest[0]) : "");
  shown = { key, stop: () => {} };
  const started = kind === "p" ? pipelineView(view, rest[0], range) : overviewView(view, range);
  const stop = await started.catch(showError);
  if (shown.key === key && stop) shown.stop = stop;
}

async function openPanel(name, id) {
  if (!shown) await goBehind(name);
  await sliceView(panel, name, id).catch((error) => replace(panel, errorBox(error)));
  if (!panel.open) panel.showModal();
}

// A link straight to a slice: the overview lies below it.
async function goBehind() {
  shown = { key: "?{}", stop: () => {} };
  const stop = await overviewView(view, {}).catch(showError);
  if (stop) shown.stop = stop;
}

// With its plots it is the largest part of the page, and the overview is there without it.
async function pipelineView(...given) {
  document.getElementById("plots").media = "all";
  return (await import("./pipeline.js")).pipelineView(...given);
}

function errorBox(error) {
  if (!(error instanceof Refused)) console.error(error);
  return h("p", { class: "error", role: "alert" }, error.message);
}

function showError(error) {
  replace(view, errorBox(error));
}

panel.addEventListener("close", () => {
  replace(panel);
  if (route().kind === "s") location.hash = behind;
});
panel.addEventListener("click", (event) => {
  if (event.target === panel) panel.close();
});
window.addEventListener("hashchange", go);
go();
