const whole = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const few = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 2 });

export const count = (value) => whole.format(value);

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (value >= 1024 && power < units.length - 1) [value, power] = [value / 1024, power + 1];
  return `${short.format(value)} ${units[power]}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 60) return `${short.format(seconds)} s`;
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${Math.floor(seconds % 60)} s`;
}

// Milliseconds since the epoch -> "3 min ago", "in 2 h"; one unit, as a person says it.
export function ago(instant, now = Date.now()) {
  const seconds = Math.round((now - instant) / 1000);
  const size = Math.abs(seconds);
  if (size < 10) return "now";
  const text = size < 60 ? `${size} s` : size < 5400 ? `${Math.round(size / 60)} min` : size < 129600 ? `${Math.round(size / 3600)} h` : `${Math.round(size / 86400)} d`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

// 12345678 -> ["12.3", "M"]: a key figure's value and its unit
export function brief(value) {
  const units = ["", "k", "M", "G", "T"];
  let power = 0;
  while (Math.abs(value) >= (power ? 999.95 : 9999.5) && power < units.length - 1) [value, power] = [value / 1000, power + 1];
  return [power ? short.format(value) : whole.format(Math.round(value)), units[power]];
}

export const percent = (share) => `${share < 0.1 && share > 0 ? few.format(share * 100) : whole.format(Math.round(share * 100))} %`;

export const rate = (perSecond) => `${perSecond < 10 ? few.format(perSecond) : whole.format(Math.round(perSecond))}/s`;

// 1 hour, 2 hours: a number and what it counts
export const counted = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;
export const rejectedRecords = (number) => counted(number, "rejected record");
export const rejectedRows = (number) => counted(number, "rejected row");

export const slicePattern = /^(\d{4}-\d\d-\d\d)T(\d\d)(\d\d)?Z$/;

// 2026-11-20T10Z, 2026-11-20T1015Z -> milliseconds
export function instantOf(sliceId) {
  const [, day, hour, minute] = slicePattern.exec(sliceId);
  return Date.parse(`${day}T${hour}:${minute ?? "00"}:00Z`);
}

export function sliceName(sliceId) {
  return `${new Date(instantOf(sliceId)).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

export const clock = (iso) => (iso ? iso.slice(0, 19).replace("T", " ").replace(/\+.*|Z$/, "") : "–");
