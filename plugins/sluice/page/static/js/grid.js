// The cells of one pipeline: hours in lines of a day, or days. One tab stop, arrow keys inside, a sign in every cell.
import { h, replace } from "./dom.js";
import { cellLabel } from "./labels.js";
import { noteLength } from "./slice_frame.js";
import { calendar, days, hours, WEEKS_FROM } from "./layouts.js";

// A year of ten pipelines has thousands of cells: what they share is made once, and listened to by the grid.
const CELL = h("div", { role: "gridcell", tabindex: "-1" });
const ONE_LINE = 60; // more hours than this are a line a day

export class CellGrid {
  constructor(open) {
    this.open = open;
    this.element = h("div", { role: "grid", class: "grid" });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("focusin", (event) => this.stay(event.target));
    this.element.addEventListener("click", (event) => this.click(event.target.closest(".cell")));
    this.element.addEventListener("pointerover", (event) => showTitle(event.target.closest(".cell")));
    this.shape = "";
    this.cells = new Map();
  }

  // Cells stay the same elements while the range stays: focus survives a refresh.
  show(row, data) {
    this.legend = new Map(data.legend.map((entry) => [entry.cell, entry]));
    if (row.slice_seconds) noteLength(row.pipeline, row.slice_seconds * 1000);
    this.most = Math.max(1, ...row.cells.map((cell) => cell.rows ?? 0));
    const shape = JSON.stringify([data.zoom, row.pipeline, row.error, row.cells.length, row.cells[0]?.id, row.cells.at(-1)?.id]);
    if (shape !== this.shape) this.build(row, data);
    else for (const cell of row.cells) this.paint(this.cells.get(cell.id), row.pipeline, cell);
    this.shape = shape;
  }

  build(row, data) {
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.pipeline = row.pipeline;
    this.cells.clear();
    for (const cell of row.cells) {
      const made = CELL.cloneNode();
      made.dataset.key = `${row.pipeline} ${cell.id}`;
      this.paint(made, row.pipeline, cell);
      this.cells.set(cell.id, made);
    }
    const layout = layoutOf(row, data);
    this.element.className = `grid ${layout}`;
    if (row.error) this.element.removeAttribute("role"); // a grid has rows
    else this.element.setAttribute("role", "grid");
    this.element.ariaLabel = `State of each ${data.zoom === "days" ? "day" : "hour"} of ${row.pipeline}`;
    const all = [...this.cells.values()];
    const lines = { calendar, days, strip: hours, lines: hours }[layout];
    replace(this.element, row.error ? h("p", { class: "error" }, row.error) : lines(row.cells, all, row.slice_seconds ?? 3600));
    const wide = this.element.querySelector(".scroll-x");
    if (wide) requestAnimationFrame(() => { wide.scrollLeft = wide.scrollWidth; }); // a year on a phone: its end
    const first = all.find((cell) => cell.dataset.key === focused) ?? all.at(-1);
    if (first) first.tabIndex = 0;
    if (focused) first?.focus();
  }

  paint(cell, pipeline, said) {
    const label = cellLabel(pipeline, said, this.legend);
    const share = ((said.rows ?? 0) / this.most).toFixed(2);
    if (cell.style.getPropertyValue("--rows") !== share) cell.style.setProperty("--rows", share);
    if (cell.ariaLabel === label) return;
    cell.className = `cell ${said.cell}${said.running ? " running" : ""}`;
    cell.textContent = this.legend.get(said.cell)?.sign ?? "";
    cell.ariaLabel = label;
    if (cell.title) showTitle(cell);
  }

  click(cell) {
    if (cell) this.open(this.pipeline, cell.dataset.key.slice(this.pipeline.length + 1));
  }

  stay(target) {
    if (!target.dataset?.key) return;
    for (const cell of this.element.querySelectorAll('.cell[tabindex="0"]')) cell.tabIndex = -1;
    target.tabIndex = 0;
  }

  key(event) {
    const here = event.target.closest(".cell");
    if (!here || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return this.click(here);
    }
    const next = this.next(here, event.key);
    if (next === undefined) return;
    event.preventDefault();
    next?.focus();
  }

  // Undefined for a key that moves nowhere.
  next(here, key) {
    const all = [...this.cells.values()];
    const at = all.indexOf(here);
    const weeks = this.element.classList.contains("calendar");
    if (key === "ArrowLeft") return all[at - (weeks ? 7 : 1)] ?? null;
    if (key === "ArrowRight") return all[at + (weeks ? 7 : 1)] ?? null;
    if (key === "Home") return all[0];
    if (key === "End") return all.at(-1);
    if (key === "PageUp" || key === "PageDown") return otherGrid(this.element, here, key === "PageUp" ? -1 : 1);
    if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
    const step = key === "ArrowUp" ? -1 : 1;
    const beside = weeks ? all[at + step] : nearest(all, here, step);
    return beside ?? otherGrid(this.element, here, step);
  }
}

function layoutOf(row, { zoom }) {
  if (zoom === "days") return row.cells.length >= WEEKS_FROM ? "calendar" : "days";
  return row.cells.length > ONE_LINE ? "lines" : "strip";
}

// A tooltip is made when it is shown.
function showTitle(cell) {
  if (cell) cell.title = cell.ariaLabel;
}

// The cell above or below, wherever the lines break on this screen.
function nearest(all, here, step) {
  const own = here.getBoundingClientRect();
  const boxes = all.map((cell) => [cell, cell.getBoundingClientRect()]).filter(([, box]) => (step < 0 ? box.bottom <= own.top + 1 : box.top >= own.bottom - 1));
  if (!boxes.length) return undefined;
  const tops = boxes.map(([, box]) => box.top);
  const line = step < 0 ? Math.max(...tops) : Math.min(...tops);
  const distance = ([, box]) => Math.abs(box.left - own.left);
  return boxes.filter(([, box]) => Math.abs(box.top - line) < 2).reduce((best, one) => (distance(one) < distance(best) ? one : best))[0];
}

function otherGrid(element, here, step) {
  const grids = [...document.querySelectorAll(".grid")].filter((grid) => grid.querySelector(".cell"));
  const cells = grids[grids.indexOf(element) + step]?.querySelectorAll(".cell");
  if (!cells) return null;
  const left = here.getBoundingClientRect().left;
  const [first, last] = [cells[0], cells[cells.length - 1]];
  const foot = (cell) => cell.offsetTop + cell.offsetHeight; // a strip's cells are as high as their rows are many
  const line = [...cells].filter((cell) => foot(cell) === foot(step > 0 ? first : last));
  return line.reduce((best, cell) => (Math.abs(cell.getBoundingClientRect().left - left) < Math.abs(best.getBoundingClientRect().left - left) ? cell : best));
}
