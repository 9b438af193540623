// Elements are made from values, never from markup: whatever an event's type or payload holds stays text.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) set(element, name, value);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
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

// columns: [{name, value(row), number?, title?}]
export function table(caption, columns, rows, empty = "Nothing.") {
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  const head = columns.map((c) => h("th", { scope: "col", class: c.number ? "number" : "", title: c.title }, c.name));
  const body = rows.map((row) =>
    h("tr", { class: row.tone ?? "" }, columns.map((c) => h("td", { class: c.number ? "number" : c.class ?? "" }, c.value(row)))),
  );
  return h(
    "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)),
  );
}

export function section(title, ...children) {
  return h("section", { class: "card" }, h("h2", {}, title), children);
}

export function copyable(text) {
  const button = h("button", { type: "button", class: "small", onclick: async () => {
    await navigator.clipboard?.writeText(text);
    button.textContent = "Copied";
  } }, "Copy");
  return h("span", { class: "command" }, h("code", {}, text), button);
}
