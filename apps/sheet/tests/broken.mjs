// The connection breaks off within a response's body, or a proxy answers for the server. `node broken.mjs PAGE_FOLDER
// CLIENT_FOLDER` prints for each case the code of the error that the page gets, whether the page's transport reads
// again, and what becomes of a message that the transport sends.
import { register } from "node:module";
import { pathToFileURL } from "node:url";

const [page, client] = process.argv.slice(2);
const folder = pathToFileURL(`${client}/`).href;
const hook = `export const resolve = (name, context, next) =>
  next(name.startsWith("/web/client/") ? name.replace("/web/client/", ${JSON.stringify(folder)}) : name, context);`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
globalThis.location = /** @type {any} */ (new URL("http://localhost/"));
globalThis.sessionStorage = /** @type {any} */ ({ getItem: () => null });
const { Server } = await import(`${page}/server.js`);
const { Transport } = await import(`${page}/transport.js`);

const server = new Server("acme");
const PAGE = { version: 0, entries: [] };
const text = (body) => () => new Response(body);
const broken = (status) => () => new Response(new ReadableStream({ pull: (body) => body.error(lost) }), { status });
const lost = new TypeError("terminated");

async function codeOf(respond, call) {
  globalThis.fetch = async () => respond();
  return call().then(
    () => "no error",
    (error) => error.code ?? error.name,
  );
}

/** Whether a transport that gets this response to its first request makes another request, and then is up to date. */
async function readsAgain(respond) {
  const responses = [respond, text(JSON.stringify(PAGE))];
  globalThis.fetch = async () => (responses.shift() ?? text(JSON.stringify(PAGE)))();
  const log = { read: () => server.get("/entries") };
  const transport = await new Promise((resolve) => {
    const hooks = { onState: () => made.lastError || resolve(made), onEnd: () => resolve(made) };
    const made = new Transport({ version: 0, hash: "" }, log, hooks);
    made.start();
  });
  const { isRunning } = transport;
  await transport.stop();
  return isRunning && responses.length === 0;
}

/** Return what the transport does with a message to whose request a proxy answers with this status and no code. */
async function afterProxy(status) {
  const entry = { version: 1, hash: "", type: "revision", message: { nextRevisionId: "r" } };
  const responses = [text(JSON.stringify(PAGE)), () => new Response("<p>proxy</p>", { status })];
  globalThis.fetch = async () => (responses.shift() ?? text(JSON.stringify(entry)))();
  const log = { read: () => server.get("/entries"), append: () => server.post("/append", {}) };
  let transport;
  const outcome = await new Promise((resolve) => {
    const hooks = {
      onState: () => {},
      onEntry: () => resolve("sent again"),
      onRefused: () => resolve("refused"),
      onEnd: ({ code }) => resolve(code),
      give: () => {},
    };
    transport = new Transport({ version: 0, hash: "" }, log, hooks);
    transport.sendMessage({ type: "REMOTE_REVISION", nextRevisionId: "r" });
    transport.start();
  });
  await transport.stop();
  return outcome;
}

const calls = {
  get: () => server.get("/entries"),
  post: () => server.post("/append", {}),
  download: () => server.download("/export"),
  upload: () => server.upload("/import", {}, "file"),
};
const result = {};
for (const [name, call] of Object.entries(calls)) {
  result[name] = [await codeOf(broken(200), call), await codeOf(broken(409), call)];
}
result.cut = await codeOf(text('{"version'), calls.get);
result.readsAgain = [await readsAgain(broken(200)), await readsAgain(text('{"version'))];
result.proxy = {};
for (const status of [401, 413, 429, 502]) result.proxy[status] = await afterProxy(status);
console.log(JSON.stringify(result));
