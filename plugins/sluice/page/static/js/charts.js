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
const newestAndMost = (values, said) => (highest(values) ? `${said(values.findLast(Number.isFinite))} at the end, at most ${said(highest(values))}` : said(0));

const FEWEST = 3;
const HOUR = 3600;
const MOST_POINTS = 20000;

// The chosen range in seconds, up to now: every plot of a tab has this axis.
export function spanOf({ from, to }, now = Date.now()) {
  const age = /^(\d{1,5})h$/.exec(from)?.[1];
  const end = to === "now" ? now / 1000 : Math.min(Date.parse(iso(to)), now) / 1000;
  return [age ? Math.ceil(now / 1000 / HOUR) * HOUR - Number(age) * HOUR : Date.parse(iso(from)) / 1000, end];
}

const iso = (text) => (/^\d{4}-\d\d-\d\dT\d\d(?:\d\d)?Z$/.test(text) ? `${text.slice(0, 13)}:${text.slice(13, -1) || "00"}Z` : text);

// A point for each step of the range, null where there is none: a line does not run over what is not known.
export function spread(starts, lines, [from, until]) {
  const step = Math.min(...starts.slice(1).map((at, n) => at - starts[n]), starts.length < 2 ? HOUR : Infinity);
  const first = starts[0] - Math.max(0, Math.floor((starts[0] - from) / step)) * step;
  const last = Math.max(starts.at(-1), until - step);
  if (!(step > 0) || (last - first) / step > MOST_POINTS) return [starts, ...lines.map((line) => line.values)];
  const at = new Map(starts.map((start, n) => [start, n]));
  const every = Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, n) => first + n * step);
  return [every, ...lines.map(({ values }) => every.map((start) => (at.has(start) ? values[at.get(start)] : null)))];
}

// lines: [{label, values}], distinguished by colour and by dashes; null is a gap. What cannot be added up (`most`) is
// summed up by its newest and its highest value, written by `said`. `asked` is the range that was chosen.
export function linePlot(place, title, starts, lines, { asked, most = false, said = count, none = "Nothing in this range." }) {
  const span = spanOf(asked);
  const total = lines.map(({ label, values }) => `${label} ${most ? newestAndMost(values, said) : said(sumOf(values))}`).join(", ");
  const shape = JSON.stringify([title, lines.map((line) => line.label), document.documentElement.dataset.theme]);
  const known = plots.get(place);
  const points = starts.filter((_, n) => lines.some((line) => Number.isFinite(line.values[n]))).length;
  const data = points < FEWEST ? [] : spread(starts, lines, span);
  if (known?.shape === shape && points >= FEWEST) {
    known.span.splice(0, 2, ...span);
    known.data = data;
    known.plot?.setData(data);
    known.caption.textContent = total;
    return;
  }
  known?.observer.disconnect();
  known?.plot?.destroy();
  const caption = h("figcaption", { class: "quiet" }, total || "Nothing.");
  const canvas = h("div", { class: "plot", role: "img", "aria-label": `${title}: ${total}` });
  const few = points > 0 ? h("p", { class: "quiet" }, `Too few points for a line yet: ${points} of ${FEWEST}. ${total}.`) : typeof none === "string" ? h("p", { class: "quiet" }, none) : none;
  replace(place, h("section", { class: "card" }, h("h2", {}, title), points < FEWEST ? few : h("figure", {}, canvas, caption)));
  if (points < FEWEST) return plots.delete(place);
  // Drawn once its place is seen: how high the legend is depends on the width, and moves what is below.
  const observer = new ResizeObserver(() => {
    const width = canvas.clientWidth;
    if (drawn.plot) drawn.plot.setSize({ width, height: HEIGHT });
    else if (width) drawn.plot = new uPlot(options(lines, width, said, span), drawn.data, canvas);
  });
  const drawn = { shape, data, plot: null, caption, observer, span };
  plots.set(place, drawn);
  observer.observe(canvas);
}

// 24-hour clock, and the date where a day begins
function tickName(tick, before) {
  const [date, time] = new Date(tick * 1000).toISOString().slice(5, 16).split("T");
  const daily = before !== undefined && tick - before >= 86400;
  return daily || time === "00:00" ? date : before === undefined ? `${time}\n${date}` : time;
}

function options(lines, width, said, span) {
  const [text, grid] = [colour("--quiet"), colour("--line")];
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "11px system-ui, sans-serif" };
  return {
    width, height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: { x: { range: () => [...span] }, y: { range: (plot, low, high) => [0, Math.max(1, high * 1.05)] } },
    axes: [{ ...axis, values: (plot, ticks) => ticks.map((tick, index) => tickName(tick, ticks[index - 1])) }, { ...axis, size: 52, values: (plot, ticks) => ticks.map((tick) => short.format(tick)) }],
    series: [
      { label: "hour (UTC)", value: "{YYYY}-{MM}-{DD} {HH}:{mm}" },
      ...lines.map(({ label }, index) => ({ label, stroke: colour(`--plot-${index % 7}`), width: 1.5, dash: DASHES[index % 7], points: { show: lines[0].values.length < 60, size: 4 }, spanGaps: false, value: (plot, value) => (value === null || value === undefined ? "–" : said(value)) })),
    ],
    cursor: { y: false },
  };
}
