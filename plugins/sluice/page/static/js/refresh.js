// Asks again while the page can be seen: often while something runs, seldom otherwise.
const BUSY_MS = 3000;
const IDLE_MS = 20000;

export async function keep(refresh, failed) {
  let timer = null;
  let stopped = false;
  const again = (busy) => { if (!stopped) timer = setTimeout(tick, busy ? BUSY_MS : IDLE_MS); };
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
  return () => { stopped = true; clearTimeout(timer); };
}
