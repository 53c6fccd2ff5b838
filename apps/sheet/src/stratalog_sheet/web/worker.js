// Worker: serves the stored pages of sheets while the server cannot be reached. Otherwise the worker serves the
// server's response and stores it.
{
  const CACHE = "stratalog pages";
  const PAGES = "/web/";
  const scope = /** @type {ServiceWorkerGlobalScope} */ (/** @type {unknown} */ (self));

  const store = async (cache, key, answer) => {
    const known = await cache.match(key);
    if (known?.headers.get("ETag") !== answer.headers.get("ETag")) await cache.put(key, answer);
  };

  const newest = async (event, key) => {
    const cache = await caches.open(CACHE);
    try {
      const answer = await fetch(event.request);
      if (answer.ok) event.waitUntil(store(cache, key, answer.clone()));
      return answer;
    } catch (error) {
      const known = await cache.match(key);
      if (!known) throw error;
      return known;
    }
  };

  scope.addEventListener("install", () => scope.skipWaiting());
  scope.addEventListener("activate", (event) => event.waitUntil(scope.clients.claim()));

  scope.addEventListener("fetch", (event) => {
    const { method, url } = event.request;
    const { origin, pathname } = new URL(url);
    if (method !== "GET" || origin !== location.origin || !pathname.startsWith(PAGES)) return;
    // Omit the query from the key. The query names the sheet, but the page is the same for all sheets.
    event.respondWith(newest(event, origin + pathname));
  });
}
