// Small drawings without axes: the shape of 48 hours beside a number. They take the width of their place.
import { svg } from "./dom.js";

const [WIDTH, HEIGHT] = [100, 32];

// values: numbers, or null where there is none. expected: the same length, drawn as a dashed line.
// label says in words what the drawing shows: it is all that somebody has who does not see it.
export function sparkline(values, { label, expected = [] }) {
  const most = Math.max(1, ...values.filter(Number.isFinite), ...expected.filter(Number.isFinite));
  const at = (value, index, length) => [(index / Math.max(1, length - 1)) * WIDTH, HEIGHT - 1 - (value / most) * (HEIGHT - 3)];
  const line = path(values, at);
  return svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, [
    svg("path", { class: "area", d: area(values, at) }),
    expected.some(Number.isFinite) && svg("path", { class: "expected", d: path(expected, at) }),
    svg("path", { class: "line", d: line }),
  ]);
}

// A gap where there is no value.
function path(values, at) {
  return runs(values).map((run) => run.map(([value, index], n) => `${n ? "L" : "M"}${point(at(value, index, values.length))}`).join("")).join("");
}

function area(values, at) {
  const foot = (index) => `${at(0, index, values.length)[0].toFixed(2)} ${HEIGHT}`;
  return runs(values).map((run) => `M${foot(run[0][1])}${run.map(([value, index]) => `L${point(at(value, index, values.length))}`).join("")}L${foot(run.at(-1)[1])}Z`).join("");
}

const point = ([x, y]) => `${x.toFixed(2)} ${y.toFixed(2)}`;

function runs(values) {
  const found = [[]];
  values.forEach((value, index) => {
    if (Number.isFinite(value)) found.at(-1).push([value, index]);
    else if (found.at(-1).length) found.push([]);
  });
  return found.filter((run) => run.length);
}
