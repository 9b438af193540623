// The address is the state of the page: the view, its hour, range, tab and filters. Inside Airflow the address is
// that of Airflow's window, so that it can be copied, reloaded and gone back to.
//
//   #/                                overview          ?from=48h&to=now and filters
//   #/p/<pipeline>                    one pipeline      ?from&to&tab and what its forms hold
//   #/p/<pipeline>/backfill           its backfills     ?from&to&mode&columns&table: the form, filled; run: one that is followed
//   #/s/<pipeline>/<slice>            one hour, over the view that `over` names: ?over=p&from&to&tab

const PATTERNS = {
  overview: [],
  pipeline: ["p", "pipeline"],
  backfill: ["p", "pipeline"],
  slice: ["s", "pipeline", "slice"],
};

// {view, pipeline?, slice?, query: {name: text}, unknown?: text}. What is no address of ours is the overview, which says so.
export function parse(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decode);
  const query = Object.fromEntries(new URLSearchParams(search));
  if (parts[0] === "p" && parts[2] === "backfill") return { view: "backfill", pipeline: parts[1], query };
  if (parts[0] === "p" && parts[1]) return { view: "pipeline", pipeline: parts[1], query };
  if (parts[0] === "s" && parts[2]) return { view: "slice", pipeline: parts[1], slice: parts[2], query };
  return { view: "overview", query, ...(parts.length ? { unknown: path } : {}) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // not ours: a lone % in it
  }
}

// The address of a route; of its query, what is null, undefined or "" is left out.
export function format({ view = "overview", query = {}, ...values }) {
  const [letter, ...names] = PATTERNS[view];
  const path = letter ? [letter, ...names.map((name) => encodeURIComponent(values[name])), ...(view === "backfill" ? ["backfill"] : [])].join("/") : "";
  const said = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(said).toString();
  return `#/${path}${search ? `?${search}` : ""}`;
}

export const current = () => parse(location.hash);

// The route of an hour over the present view, with its range.
export function sliceRoute(pipeline, slice) {
  const { view, query } = current();
  const over = view === "slice" ? query.over : view === "pipeline" ? "p" : null;
  const { from, to } = query;
  return { view: "slice", pipeline, slice, query: { over, from, to } };
}

// The view below an hour.
export function behind({ pipeline, query }) {
  const { over, from, to } = query;
  return over === "p" ? { view: "pipeline", pipeline, query: { from, to } } : { view: "overview", query: { from, to } };
}

// Returns what ends the listening.
const listeners = new Set();
// Returns what forgets the listener.
export function onRoute(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let last = null;
function changed() {
  if (location.hash === last) return;
  last = location.hash;
  for (const listener of listeners) listener(current());
}

// Goes to a route or an address; with `replace` without an entry to go back to. From hour to hour there is none.
export function go(route, { replace: asked = false } = {}) {
  const hash = typeof route === "string" ? route : format(route);
  if (hash === location.hash) return;
  const host = hostOf();
  const replace = asked || (current().view === "slice" && parse(hash).view === "slice");
  if (!host) {
    if (replace) history.replaceState(history.state, "", hash);
    else history.pushState({ below: location.hash }, "", hash);
    return changed();
  }
  const below = location.hash;
  history.replaceState(null, "", hash); // the entry to go back to is the host's
  mirror(host, replace, below);
  changed();
}

// Leaves an hour for the view below it: back to that, where the entry before is one of it, so that Back does not open
// the hour again.
export function leave(route) {
  const window_ = hostOf() ?? window;
  const below = window_.history.state?.below;
  const known = below === undefined ? null : parse(below);
  if (known?.view === route.view && known.pipeline === route.pipeline) window_.history.back();
  else go(route, { replace: true });
}

// Changes parts of the query: a tab, a filter, a field. Null takes one out.
export function setQuery(changes, options = { replace: true }) {
  const route = current();
  go({ ...route, query: { ...route.query, ...changes } }, options);
}

// Airflow's window, where it is of this origin and shows this page: /plugin/sluice, and Airflow 3.3 appends the
// address of the frame: /plugin/sluice/sluice/#/… It sets the frame's address to that when its own changes.
function hostOf() {
  try {
    const host = window.parent === window ? null : window.parent;
    return host && /\/plugin\/[^/]+/.test(host.location.pathname) ? host : null;
  } catch {
    return null; // framed by another origin
  }
}

// Airflow's router keeps a number of each entry in its state, and compares them: an entry of ours has the next.
function mirror(host, replace, below) {
  const { pathname, search } = host.location;
  const state = host.history.state;
  const path = pathname.endsWith(location.pathname) ? pathname : pathname.replace(/(\/plugin\/[^/]+).*$/, "$1");
  const url = `${path}${search}${location.hash}`;
  if (replace) host.history.replaceState(state, "", url);
  else host.history.pushState({ ...state, below, key: Math.random().toString(36).slice(2, 10), idx: (state?.idx ?? 0) + 1 }, "", url);
}

// What Airflow's window says is followed: back, forward, and its own link to this page.
function follow(host) {
  const shown = hostOf();
  if (shown !== host || host.location.hash === location.hash) return;
  history.replaceState(null, "", host.location.hash || "#/");
  if (!host.location.hash) mirror(host, true);
  changed();
}

// Links to addresses of ours go through the router: a frame's own entries would be a second history.
function click(event) {
  const link = event.target.closest?.('a[href^="#/"]');
  if (!link || event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const route = parse(link.getAttribute("href"));
  const beside = route.view === "slice" && Object.keys(route.query).length === 0;
  go(beside ? sliceRoute(route.pipeline, route.slice) : route);
}

export function start() {
  document.addEventListener("click", click);
  window.addEventListener("popstate", changed);
  window.addEventListener("hashchange", moved);
  const host = hostOf();
  if (host) {
    const ear = () => follow(host);
    host.addEventListener("popstate", ear);
    host.navigation?.addEventListener("currententrychange", ear); // also what Airflow's router pushes
    window.addEventListener("pagehide", () => {
      host.removeEventListener("popstate", ear);
      host.navigation?.removeEventListener("currententrychange", ear);
    });
  }
  changed();
}

// Somebody has set the frame's address: Airflow, or a hand in the address of this page alone.
function moved() {
  const host = hostOf();
  if (host && host.location.hash !== location.hash) mirror(host, true);
  changed();
}
