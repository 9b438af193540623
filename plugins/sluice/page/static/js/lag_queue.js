// Lag comes from Kafka, which may take seconds: after the first paint, for cards on the screen, a few at a time.
const AT_ONCE = 2;
const EVERY_MS = 60000;

const waiting = [];
let busy = 0;

function next() {
  while (busy < AT_ONCE && waiting.length) {
    busy += 1;
    waiting.shift()().finally(() => {
      busy -= 1;
      next();
    });
  }
}

// Calls `show` with each answer, or with {error}; returns what stops it.
export function lagOf(element, ask, show) {
  let [timer, stopped, seen] = [null, false, false];
  const once = async () => {
    if (stopped || document.hidden) return;
    show(await ask().catch((error) => ({ error: error.message })));
  };
  const again = () => {
    if (stopped) return;
    if (seen) waiting.push(once);
    next();
    timer = setTimeout(again, EVERY_MS);
  };
  const observer = new IntersectionObserver((entries) => {
    const before = seen;
    seen = entries.at(-1).isIntersecting;
    if (!seen || before) return;
    clearTimeout(timer);
    again();
  });
  observer.observe(element);
  return () => {
    stopped = true;
    clearTimeout(timer);
    observer.disconnect();
  };
}
