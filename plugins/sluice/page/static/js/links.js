import { h } from "./dom.js";

// Airflow's frame may not navigate the window above it, but that window's own document may.
export function airflowLink(href, ...children) {
  return h("a", { href, target: "_top", onclick: (event) => {
    if (window.parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const link = window.parent.document.createElement("a");
    link.href = href;
    link.click();
  } }, ...children);
}
