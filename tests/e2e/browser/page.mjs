// Helpers of stories that use the client of the movies page. The module of the page exports the client.

import assert from "node:assert/strict";

/** The client of the movies page. */
const clientOf = (page) => page.evaluateHandle(async () => (await import("/web/movies/movies.js")).client);

/** Run a task in the page, with the page's client and an argument. */
export const evaluate = async (page, task, argument) => page.evaluate(task, [await clientOf(page), argument]);

/** Wait until a task in the page returns a true value. */
export const until = async (page, task, argument) => page.waitForFunction(task, [await clientOf(page), argument]);

export const settles = (page) => until(page, ([client]) => client.pending().length === 0 && !client.lastError);
export const count = (page, key) => evaluate(page, ([client, name]) => client.get(name, 0), key);
export const waitForCount = (page, key, number) =>
  until(page, ([client, [name, wanted]]) => client.get(name, 0) === wanted, [key, number]);

async function digest(page) {
  return evaluate(page, async ([client]) => {
    const text = new TextEncoder().encode(JSON.stringify(client.scan()));
    return [...new Uint8Array(await crypto.subtle.digest("SHA-256", text))].join();
  });
}

export async function agree(...pages) {
  const digests = await Promise.all(pages.map(digest));
  assert.equal(new Set(digests).size, 1);
}
