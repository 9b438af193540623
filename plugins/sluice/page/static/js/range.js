import { h } from "./dom.js";
import { format, go } from "./router.js";

export const RANGES = [["48 hours", "48h"], ["7 days", "168h"], ["30 days", "720h"], ["1 year", "8760h"]];
const DATE = "\\d{4}-\\d{2}-\\d{2}";

// `route` is that of the view whose range it is. Dates are ISO's, whatever the browser's language is.
export function rangePicker(asked, route) {
  const to = (from, until) => ({ ...route, query: { ...route.query, from, to: until } });
  const chosen = ([, from]) => asked.from === from && asked.to === "now";
  const presets = RANGES.map((one) => h("a", { class: "button", href: format(to(one[1], "now")), "aria-current": chosen(one) ? "true" : null }, one[0]));
  const own = !RANGES.some(chosen);
  const field = (name, label, value) => h("input", { type: "text", name, class: "date", "aria-label": label, title: label, pattern: DATE, placeholder: "2026-11-20", maxlength: "10", inputmode: "numeric", autocomplete: "off", value: own && value !== "now" ? value.slice(0, 10) : "" });
  const [first, end] = [field("from", "First day (UTC), as 2026-11-20", asked.from), field("to", "End (UTC), not included, as 2026-11-21; empty: now", asked.to)];
  first.required = true;
  const custom = h("form", { class: "custom", onsubmit: (event) => {
    event.preventDefault();
    go(to(first.value, end.value || "now"));
  } }, first, "–", end, h("button", { type: "submit" }, "Show"));
  return h("div", { class: "ranges", role: "group", "aria-label": "Range" }, h("div", { class: "segments" }, presets), custom);
}
