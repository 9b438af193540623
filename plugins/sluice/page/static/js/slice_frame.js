// The frame of an hour's panel: its heading, the ways to other hours and out of it, and a place for what is known.
// It is there at once, and what comes late for an hour that is no longer shown finds its place gone.
import { h, loading, replace } from "./dom.js";
import { sliceName, slicePattern } from "./format.js";
import { format, go, sliceRoute } from "./router.js";

const lengths = new Map(); // of a slice in milliseconds, by pipeline
const HOUR = 3600000;

export const noteLength = (pipeline, milliseconds) => lengths.set(pipeline, milliseconds);

// The hour before or after, by the id of the one that is shown: nobody waits for an answer. Null where there is none.
export function beside(pipeline, slice, side) {
  const [, day, hour, minute] = slicePattern.exec(slice) ?? [];
  const length = lengths.get(pipeline) ?? (minute === undefined ? HOUR : NaN);
  const start = Date.parse(`${day}T${hour}:${minute ?? "00"}:00Z`) + (side === "next" ? length : -length);
  if (!Number.isFinite(start) || (side === "next" && start > Date.now())) return null;
  const iso = new Date(start).toISOString();
  return `${iso.slice(0, 13)}${minute === undefined ? "" : iso.slice(14, 16)}Z`;
}

// Walking leaves no entries: Back leaves the panel.
export function walk(pipeline, slice, side) {
  const next = beside(pipeline, slice, side);
  if (next) go(sliceRoute(pipeline, next));
}

// Returns the frame, with `said` and `body` to be filled, and what completes it then.
export function frameOf(panel, pipeline, slice) {
  const focused = panel.contains(document.activeElement) ? document.activeElement.getAttribute("rel") : null;
  const way = (rel, words) => {
    const next = beside(pipeline, slice, rel);
    return next && h("a", { class: "button", rel, title: `Key ${words.match(/[←→]/)[0]}`, href: format(sliceRoute(pipeline, next)) }, words);
  };
  const ways = h("span", { class: "ways" });
  const fill = () => replace(ways, way("prev", "← Earlier"), way("next", "Later →"));
  fill();
  const said = h("div", { class: "said-place" }, h("p", { class: "quiet" }, "Loading…"));
  const body = h("div", { class: "panel-body" }, loading("6em", "Loading the hour"));
  const close = h("button", { type: "button", autofocus: true, "aria-label": "Close", onclick: () => panel.close() }, "✕");
  const head = h(
    "header", { class: "panel-head" },
    h("div", { class: "panel-title" }, h("h1", { id: "panel-title" }, `${pipeline}, ${slicePattern.test(slice) ? sliceName(slice) : slice}`), said),
    h("nav", { "aria-label": "Other hours" }, ways, close),
  );
  replace(panel, head, body);
  panel.scrollTop = 0;
  if (panel.open) (head.querySelector(`[rel="${focused}"]`) ?? close).focus(); // its own has gone
  const known = lengths.has(pipeline);
  return { said, body, whole: () => known || fill() }; // once it is known how long a slice is
}
