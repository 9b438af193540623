// What has changed in the last week, the newest first.
import { badge, card, empty, h, replace, time } from "./dom.js";
import { clock, count, counted, sliceName } from "./format.js";
import { format, sliceRoute } from "./router.js";

const NAMES = { file: "pipeline file", Sluice: "Sluice", column: "column added", field: "field", topic: "topic", partition: "partitions", erasure: "erasure", table: "table", type: "new type", retention: "retention", run: "run" };

export function showChanges(place, name, { changes, more, known_since: since, fields_at: at, start }) {
  const said = since ? `Versions of the pipeline file are known since ${clock(since)} UTC.` : "No run has noted the pipeline file yet: the next one does.";
  const shape = JSON.stringify([changes, since]);
  if (place.dataset.shape === shape) return replace(place.querySelector(".asked"), time(at)); // an opened diff stays open
  place.dataset.shape = shape;
  replace(place, card(
    "Changes of the last seven days", { badges: [badge(`${count(changes.length + more)} since ${clock(start).slice(0, 10)}`)] },
    changes.length ? h("ol", { class: "changes" }, changes.map((one) => item(name, one))) : empty("Nothing has changed.", "Files, Sluice's version, tables, types and fields of events, topics, their partitions and retention are compared; backfills, commands and erasures are listed."),
    more > 0 && h("p", { class: "quiet" }, `And ${counted(more, "older one")}.`), h("p", { class: "quiet" }, said, " The fields of events were compared ", h("span", { class: "asked" }, time(at)), ": every five minutes at most."),
  ));
}

function item(name, one) {
  const hour = one.slice && h("a", { href: format(sliceRoute(name, one.slice)) }, sliceName(one.slice));
  return h("li", {}, h("div", { class: "change-head" }, badge(NAMES[one.kind] ?? one.kind), h("b", {}, one.place), time(one.at), hour), h("p", {}, one.what), one.lines.length > 0 && diff(one.lines));
}

function diff(lines) {
  return h("details", {}, h("summary", {}, "What changed"), h("pre", { class: "diff", tabindex: "0" }, lines.map((line) => h("span", { class: line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "" }, `${line}\n`))));
}
