// Page cache: has the browser store the page's own files, so that a sheet opens with the server away, too.

const CACHE = "stratalog pages";

/** Store the files that this page was made of. A browser that cannot is without it. */
export async function cachePage() {
  if (!navigator.serviceWorker) return;
  await navigator.serviceWorker.register("/web/sheet/worker.js");
  const loaded = performance.getEntriesByType("resource").map(({ name }) => name.split("?")[0]);
  const own = loaded.filter((url) => url.startsWith(`${location.origin}/web/`));
  const cache = await caches.open(CACHE);
  const wanted = [...new Set([location.origin + location.pathname, ...own])];
  const known = new Set((await cache.keys()).map(({ url }) => url));
  await cache.addAll(wanted.filter((url) => !known.has(url)));
  document.body.dataset.cached = "true";
}
