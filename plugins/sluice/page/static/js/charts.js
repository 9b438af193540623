import uPlot from "../vendor/uplot/uPlot.esm.js";
import { h, replace } from "./dom.js";
import { count } from "./format.js";

const HEIGHT = 190;
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [12, 4], [1, 4], [4, 4]];
const plots = new WeakMap();

const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const sumOf = (values) => values.reduce((a, b) => a + b, 0);
const highest = (values) => Math.max(0, ...values.filter(Number.isFinite));
const span = (values, said) => (highest(values) ? `${said(values.findLast(Number.isFinite))} at the end, at most ${said(highest(values))}` : said(0));

// lines: [{label, values}], distinguished by colour and by dashes; null is a gap. What cannot be added up (`most`) is
// summed up by its newest and its highest value, written by `said`.
export function linePlot(place, title, starts, lines, { most = false, said = count, none = "Nothing in this range." } = {}) {
  const total = lines.map(({ label, values }) => `${label} ${most ? span(values, said) : said(sumOf(values))}`).join(", ");
  const shape = JSON.stringify([title, lines.map((line) => line.label), document.documentElement.dataset.theme]);
  const known = plots.get(place);
  const data = [starts, ...lines.map((line) => line.values)];
  if (known?.shape === shape) {
    known.plot.setData(data);
    known.caption.textContent = total;
    return;
  }
  known?.observer.disconnect();
  known?.plot.destroy();
  const caption = h("figcaption", { class: "quiet" }, total || "Nothing.");
  const canvas = h("div", { class: "plot", role: "img", "aria-label": `${title}: ${total}` });
  replace(place, h("section", { class: "card" }, h("h2", {}, title), starts.length ? h("figure", {}, canvas, caption) : typeof none === "string" ? h("p", { class: "quiet" }, none) : none));
  if (!starts.length) return plots.delete(place);
  const plot = new uPlot(options(lines, canvas.clientWidth || 400, said), data, canvas);
  const observer = new ResizeObserver(() => plot.setSize({ width: canvas.clientWidth, height: HEIGHT }));
  observer.observe(canvas);
  plots.set(place, { shape, plot, caption, observer });
}

// 24-hour clock, and the date where a day begins
function tickName(tick, before) {
  const [date, time] = new Date(tick * 1000).toISOString().slice(5, 16).split("T");
  const daily = before !== undefined && tick - before >= 86400;
  return daily || time === "00:00" ? date : before === undefined ? `${time}\n${date}` : time;
}

function options(lines, width, said) {
  const [text, grid] = [colour("--quiet"), colour("--line")];
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "11px system-ui, sans-serif" };
  return {
    width, height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: { x: { range: (plot, low, high) => (plot.data[0].length === 1 ? [plot.data[0][0] - 43200, plot.data[0][0] + 43200] : [low, high]) }, y: { range: (plot, low, high) => [0, Math.max(1, high * 1.05)] } },
    axes: [{ ...axis, values: (plot, ticks) => ticks.map((tick, index) => tickName(tick, ticks[index - 1])) }, { ...axis, size: 52, values: (plot, ticks) => ticks.map((tick) => short.format(tick)) }],
    series: [
      { label: "hour (UTC)", value: "{YYYY}-{MM}-{DD} {HH}:{mm}" },
      ...lines.map(({ label }, index) => ({ label, stroke: colour(`--plot-${index % 7}`), width: 1.5, dash: DASHES[index % 7], points: { show: lines[0].values.length < 60, size: 4 }, value: (plot, value) => (value === null || value === undefined ? "–" : said(value)) })),
    ],
    cursor: { y: false },
  };
}
