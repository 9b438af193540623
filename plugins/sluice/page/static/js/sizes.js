// The last hours against the same ones a day and a week before, and against what was expected.
import { badge, card, empty, h, replace, stats, table } from "./dom.js";
import { brief, bytes, count, percent, rate, sliceName } from "./format.js";
import { format, sliceRoute } from "./router.js";

const known = (value, said) => (value === null || value === undefined ? "–" : said(value));

export function showSizes(place, name, { hours }) {
  const newest = hours.find((one) => one.records !== null);
  if (!newest) return replace(place, card("Hours against earlier ones", {}, empty("No hour of the last 48 has landed.", "See what waits under Hours and tables.")));
  replace(place, card(
    "Hours against earlier ones", { badges: [judged(newest)] },
    h("p", { class: "quiet" }, "The newest that has landed: ", h("a", { href: format(sliceRoute(name, newest.slice)) }, sliceName(newest.slice))),
    stats([
      { label: "Records", value: brief(newest.records)[0], unit: brief(newest.records)[1], note: newest.bytes ? bytes(newest.bytes) : null, title: count(newest.records) },
      against("A day earlier", newest.records, newest.yesterday), against("A week earlier", newest.records, newest.week_ago), against("Expected", newest.records, newest.expected),
      speed("Landed at", newest.land_rates), speed("Loaded at", newest.load_rates),
    ]),
    table("Hours against earlier ones", [
      { name: "Hour", class: "nowrap", value: (r) => h("a", { href: format(sliceRoute(name, r.slice)) }, sliceName(r.slice)) },
      { name: "Records", number: true, value: (r) => known(r.records, count) }, { name: "A day earlier", number: true, value: (r) => compared(r.records, r.yesterday) },
      { name: "A week earlier", number: true, value: (r) => compared(r.records, r.week_ago) }, { name: "Expected", number: true, value: (r) => compared(r.records, r.expected) },
      { name: "Usual", number: true, title: "Between these the watch says nothing", value: (r) => (r.low === null ? "–" : `${count(r.low)} – ${count(r.high)}`) },
      { name: "Size", number: true, value: (r) => known(r.bytes, bytes) },
      { name: "Landed", number: true, title: "Records a second of the batch that landed it", value: (r) => known(r.land_rates[0], rate) },
      { name: "Loaded", number: true, title: "Rows a second of the batch that loaded it", value: (r) => known(r.load_rates[0], rate) },
    ], hours),
  ));
}

function judged(one) {
  if (one.low === null) return badge("too little history to judge");
  if (one.records < one.low) return badge("fewer than usual", "bad");
  return one.records > one.high ? badge("more than usual", "warn") : badge("as usual", "good");
}

const change = (now, then) => (then ? `${now >= then ? "+" : "−"}${percent(Math.abs(now - then) / then)}` : "");

function compared(now, then) {
  if (then === null) return "–";
  return [count(then), now !== null && then > 0 && h("span", { class: "unit" }, ` ${change(now, then)}`)];
}

function against(label, now, then) {
  const none = label === "Expected" ? "no history yet" : "not known";
  return { label, value: then === null ? "–" : count(then), note: then === null ? none : then === 0 ? "it was empty" : `now ${change(now, then)}` };
}

function speed(label, [now, day, week]) {
  return { label, value: now === null ? "–" : rate(now), note: `a day earlier ${known(day, rate)}, a week earlier ${known(week, rate)}` };
}
