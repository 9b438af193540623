// Where cells stand: 48 hours in one line, more hours in a line a day, days in a line, a year in columns of weeks.
// A line is made of groups of half a day: on a phone each is a line of its own, with its time.
import { h } from "./dom.js";
import { instantOf } from "./format.js";

export const WEEKS_FROM = 63; // more days than this are shown as a calendar, a column per week
const DAY = 86400;
const DAYS_OF_A_GROUP = 10;

export function hours(said, cells, seconds) {
  const perDay = Math.max(1, Math.floor(DAY / seconds));
  const perLine = Math.min(24, perDay);
  const perGroup = Math.max(1, perLine / 2);
  const numbered = cells.map((cell, n) => ({ cell, start: instantOf(said[n].id) / 1000, at: Math.floor(instantOf(said[n].id) / 1000 / seconds) }));
  const lines = cells.length > 60;
  const groups = split(numbered, ({ at }) => Math.floor(at / perGroup)).map((own, n) => ({ line: Math.floor(own[0].at / perLine), start: own[0].start, element: group(own.map((one) => one.cell), own[0].at % perGroup, perGroup, hourMark(own[0].start - (lines ? (own[0].at % perGroup) * seconds : 0), own.length, !lines && n === 0)) }));
  if (!lines) return h("div", { class: "line", role: "row" }, groups.map((one) => one.element));
  return split(groups, (one) => one.line).map((own) => line(own, perLine === perDay));
}

function line(groups, isDay) {
  const start = new Date(groups[0].start * 1000);
  const time = start.toISOString().slice(11, 16);
  return h("div", { class: "line", role: "row" }, h("div", { class: "line-name", role: "rowheader" }, dayName(start), !isDay && ` ${time}`), h("div", { class: "groups", role: "presentation" }, groups.map((one) => one.element)));
}

export function days(said, cells) {
  const groups = split(cells.map((cell, n) => ({ cell, n })), ({ n }) => Math.floor(n / DAYS_OF_A_GROUP));
  return h("div", { class: "line", role: "row" }, groups.map((own) => group(own.map((one) => one.cell), 0, DAYS_OF_A_GROUP, h("span", { class: "date" }, said[own[0].n].id.slice(5)))));
}

function group(cells, lead, size, mark) {
  return h("div", { class: "group", role: "presentation", css: { "--n": String(cells.length), "--size": String(size), "--lead": String(lead) } }, h("span", { class: "mark", "aria-hidden": "true" }, mark), cells);
}

// The first group has its date on a phone, where it is a line of its own.
function hourMark(start, length, first) {
  const at = new Date(start * 1000);
  const time = at.toISOString().slice(11, 16);
  const narrow = length < 3 ? " narrow" : "";
  if (time === "00:00") return [h("span", { class: `date${narrow}` }, h("span", { class: "weekday" }, `${dayName(at).slice(0, 3)} `), dayName(at).slice(4)), h("span", { class: "hour midnight" }, time)];
  return [first && h("span", { class: "first" }, dayName(at).slice(4)), h("span", { class: `hour${narrow}` }, time)];
}

// A column a week, Monday first.
export function calendar(said, cells) {
  const lead = weekday(said[0].id);
  const blanks = Array.from({ length: lead }, () => h("span", { class: "blank", "aria-hidden": "true" }));
  const marks = Array.from({ length: Math.ceil((lead + said.length) / 7) }, (_, week) => {
    const first = said.slice(Math.max(0, week * 7 - lead), week * 7 - lead + 7).find(({ id }) => id.endsWith("-01"));
    return h("span", { class: "mark" }, first ? first.id.slice(0, 7) : "");
  });
  return h("div", { class: "scroll-x", role: "presentation" }, h("div", { class: "months", "aria-hidden": "true" }, marks), h("div", { class: "cells", role: "row" }, blanks, cells));
}

function split(all, keyOf) {
  const found = [];
  let last;
  for (const one of all) {
    const key = keyOf(one);
    if (!found.length || key !== last) found.push([]);
    found.at(-1).push(one);
    last = key;
  }
  return found;
}

const weekday = (date) => (new Date(`${date}T00:00Z`).getUTCDay() + 6) % 7; // Monday is 0
const named = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });
const dayName = (date) => named.format(date).replace(",", "");
