// Asks for the overview while the modules are still on their way: the server's answer is the longest part of
// the first paint. A plain script in the head: modules run only when all of them are there. They are asked for
// here, too, all at once and after the overview: a browser has few connections to a server, and hands them out
// in the order of asking.
{
  const script = document.currentScript;
  try { // Airflow's window may have the address of a view, and its frame not yet
    const asked = window.parent.location.hash;
    if (window.parent !== window && location.hash === "" && asked.startsWith("#/")) history.replaceState(null, "", asked);
  } catch {
    // framed by another origin
  }
  const [place, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  if (place === "") {
    const given = new URLSearchParams(search);
    const range = { from: given.get("from") ?? "48h", to: given.get("to") ?? "now" };
    const url = `api/overview?${new URLSearchParams(range)}`;
    const answer = fetch(url, { credentials: "same-origin" });
    answer.catch(() => {}); // whoever waits for it hears of it
    window.early = { url, answer };
  }
  for (const name of script.dataset.modules.split(" ")) {
    const link = document.createElement("link");
    link.rel = "modulepreload";
    link.href = new URL(`${name}.js`, script.src);
    document.head.append(link);
  }
}
