// Asks again while the page can be seen: often while something runs, seldom otherwise.
const BUSY_MS = 3000;
const IDLE_MS = 20000;

const kept = new Set();

// Asks at once: somebody has changed what is shown.
export const askAgain = () => Promise.all([...kept].map((ask) => ask()));

// What asks again by itself, too; returns what ends that.
export function onAgain(ask) {
  kept.add(ask);
  return () => kept.delete(ask);
}

export async function keep(refresh, failed) {
  let timer = null;
  let stopped = false;
  const again = (busy) => {
    clearTimeout(timer);
    if (!stopped) timer = setTimeout(tick, busy ? BUSY_MS : IDLE_MS);
  };
  async function tick() {
    if (stopped) return;
    if (document.hidden) return again(false);
    try {
      again(await refresh());
    } catch (error) {
      failed(error);
      again(false);
    }
  }
  await tick();
  const forget = onAgain(() => {
    clearTimeout(timer);
    return tick();
  });
  return () => { stopped = true; clearTimeout(timer); forget(); };
}
