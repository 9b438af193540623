// Elements are made from values, never from markup: whatever an event's type or payload holds stays text.
// Below them the parts of the design system (docs/design/page.md).
import { ago, clock } from "./format.js";

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) set(element, name, value);
  const said = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  // What servers say is wrong quotes `commands`, too.
  element.append(...(element.classList.contains("error") ? said.flatMap((child) => (typeof child === "string" ? prose(child) : [child])) : said));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, properties = {}, children = []) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children.filter(Boolean));
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "data") Object.assign(element.dataset, value);
  else if (name === "css") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
  else element.setAttribute(name, value === true ? "" : value);
}

export function replace(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter(Boolean));
}

const FIRST_ROWS = 100;

// columns: [{name, value(row), number?, unit?, title?, class?}]; a number stands right, its unit in the heading. A long
// table says how many rows are left, a wide one that there is more at its right.
export function table(caption, columns, rows, none = "Nothing.") {
  if (!rows.length) return typeof none === "string" ? h("p", { class: "quiet" }, prose(none)) : none;
  const head = columns.map((c) => h("th", { scope: "col", class: c.number ? "number" : "", title: c.title }, c.name, c.unit && h("span", { class: "unit" }, ` ${c.unit}`)));
  const line = (row) => h("tr", { class: row.tone ?? "" }, columns.map((c) => h("td", { class: c.number ? "number" : c.class ?? "" }, c.value(row))));
  const body = h("tbody", {}, rows.slice(0, FIRST_ROWS).map(line));
  const rest = rows.slice(FIRST_ROWS);
  const more = rest.length > 0 && h("button", { type: "button", class: "small", onclick: () => {
    body.append(...rest.map(line));
    more.remove();
  } }, `Show ${rest.length} more ${rest.length === 1 ? "row" : "rows"}`);
  const scroll = h(
    "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("p", { class: "wide-hint" }, h("span", {}, "more →")),
    h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", {}, head)), body), more,
  );
  widths.observe(scroll);
  return scroll;
}

const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) target.classList.toggle("wide", target.scrollWidth > target.clientWidth + 1);
});

// Text in which `this` is code.
export const prose = (text) => text.split("`").map((part, n) => (n % 2 ? h("code", {}, part) : part));

export function section(title, ...children) {
  return h("section", { class: "card" }, h("h2", {}, title), children);
}

// A card with badges beside its title, and buttons or links at the end of that line.
export function card(title, { badges = [], actions = [], ...properties }, ...children) {
  const head = h("div", { class: "card-head" }, h("h2", {}, title), badges, actions.length > 0 && h("div", { class: "actions" }, actions));
  return h("section", { ...properties, class: `card ${properties.class ?? ""}`.trim() }, head, children);
}

// Key figures: [{label, value, unit?, note?, tone?: bad | warn, title?}]; a value may be an element.
export function stats(figures) {
  return h("dl", { class: "stats" }, figures.filter(Boolean).map(stat));
}

export function stat({ label, value, unit, note, tone = "", title }) {
  return h("div", { class: `stat ${tone}`, title }, h("dt", {}, label), h("dd", { class: "value" }, value, unit && h("span", { class: "unit" }, ` ${unit}`)), h("dd", { class: "note" }, note));
}

// tone: good | warn | bad, or none
export const badge = (text, tone = "", title = null) => h("span", { class: `badge ${tone}`, title }, text);

// Nothing is there: what that means, and what comes next.
export const empty = (what, next = null) => h("div", { class: "empty" }, h("p", {}, prose(what)), next && h("p", { class: "next" }, prose(next)));

// Keeps the place of what is on its way, so that nothing moves when it comes.
export const loading = (height = "1.2em", what = "Loading") => h("div", { class: "loading", role: "status", "aria-label": what, css: { "--h": height } });

// Links whose addresses differ by the tab: [{name, href, current}]
export function tabs(label, entries) {
  return h("nav", { class: "tabs", "aria-label": label }, entries.map((one) => h("a", { href: one.href, "aria-current": one.current ? "page" : null }, one.name)));
}

// An instant in UTC, and how long ago it is: keepTimes renews that.
export function time(iso, { short = false } = {}) {
  if (!iso) return "–";
  const instant = Date.parse(iso);
  const said = h("span", { class: "ago", data: { instant } }, ago(instant));
  if (short) return h("time", { datetime: iso, title: `${clock(iso)} UTC` }, said);
  return h("time", { datetime: iso }, h("span", { class: "nowrap" }, `${clock(iso)} UTC`), " ", said);
}

// Who looks, and as of when: a part of the frame, the same on every tab. Only the overview says who.
export function asOf(now, user = null) {
  const [who, at] = document.getElementById("asof").children;
  if (user) who.textContent = `${user}, `;
  at.textContent = `${clock(now)} UTC`;
}

export function keepTimes() {
  setInterval(() => {
    for (const said of document.querySelectorAll("[data-instant]")) said.textContent = ago(Number(said.dataset.instant));
  }, 15000);
}

export function copyable(text) {
  const button = h("button", { type: "button", class: "small", onclick: async () => {
    await navigator.clipboard?.writeText(text);
    button.textContent = "Copied";
  } }, "Copy");
  return h("span", { class: "command" }, h("code", {}, text), button);
}
