// Page cache: stores the page's own files in the browser, so that a sheet also opens without the server.

const CACHE = "stratalog pages";

/**
 * Store the files that this page has loaded, except stored files: the worker replaces these when they change. Does
 * nothing in a browser without service workers.
 */
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
