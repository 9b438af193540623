// Airflow's own theme where the page is inside Airflow, else the system's. Loaded before the first paint.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let host = null;
  try {
    host = window.parent === window ? null : window.parent.document.documentElement;
  } catch {
    host = null; // framed by somebody else: the system's theme
  }
  const apply = () => {
    const dark = host ? host.classList.contains("dark") : system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    window.dispatchEvent(new Event("themechange"));
  };
  apply();
  system.addEventListener("change", apply);
  if (host) new MutationObserver(apply).observe(host, { attributes: true, attributeFilter: ["class"] });
})();
