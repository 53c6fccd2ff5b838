// A page with the unmodified Replicache client: `index.html?document=NAME&hints=events` shows a document's content.
// With `hints=live` the page gets pokes over the WebSocket, not as server-sent events. Clients with different `release`
// parameters have different mutators. Therefore such clients never belong to the same group.

import { Replicache } from "replicache";

const asked = new URLSearchParams(location.search);
const base = `/v1/organisations/acme/documents/${asked.get("document")}`;

// The same rules as the server's built-in mutators, and one mutator that the server does not have.
const mutators = {
  put: (tx, { key, value }) => tx.set(key, value),
  inc: async (tx, { key }) => tx.set(key, ((await tx.get(key)) ?? 0) + 1),
  onlyHere: (tx, { key, value }) => tx.set(key, value),
  [`of ${asked.get("release")}`]: () => undefined,
};

export const client = new Replicache({
  name: asked.get("document"),
  pushURL: `${base}/replicache/push`,
  pullURL: `${base}/replicache/pull`,
  pullInterval: null,
  pushDelay: 1,
  requestOptions: { minDelayMs: 5, maxDelayMs: 50 },
  logLevel: "error",
  logSinks: [{ log: () => undefined }],
  mutators,
});

function listen() {
  if (asked.get("hints") === "live") {
    new WebSocket(`${base}/live`).onmessage = () => client.pull();
    return;
  }
  const source = new EventSource(`${base}/events`);
  for (const type of ["ready", "poke"]) source.addEventListener(type, () => client.pull());
}

client.subscribe(async (tx) => Object.fromEntries(await tx.scan().entries().toArray()), {
  onData: (content) => (document.querySelector("#content").textContent = JSON.stringify(content)),
});
addEventListener("online", () => client.pull());
listen();
