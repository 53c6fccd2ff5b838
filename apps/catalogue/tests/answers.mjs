// A proxy answers the catalogue's page with a page of its own. `node answers.mjs PAGE_FOLDER` prints for each response
// the body, or the message of the error that the page shows.
globalThis.location = /** @type {any} */ (new URL("http://localhost/"));
globalThis.sessionStorage = /** @type {any} */ ({ getItem: () => null });
const { fetchJson } = await import(`${process.argv[2]}/parts.js`);

async function shown(body, status) {
  globalThis.fetch = async () => new Response(body, { status });
  return fetchJson("/works", {}).then(JSON.stringify, (error) => error.message);
}

const html = await shown("<html>Bad gateway</html>", 502);
const refused = await shown('{"message": "no such work"}', 404);
console.log(JSON.stringify([html, refused, await shown("[1]", 200)]));
