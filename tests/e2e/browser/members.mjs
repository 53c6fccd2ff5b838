// The browser client in Chromium, for the sessions of tests/branches. In such a session the server loses history, or
// its store becomes two copies. Members of one group are tabs of one profile. `node members.mjs CHROMIUM` starts the
// program.

import { chromium } from "playwright-core";
import { answerTasks } from "../../branches/members.mjs";
import { launching } from "../telling.mjs";

const ORIGIN = "http://localhost:9";
const PAGE = "/web/client/stratalog.d.ts";
const [executablePath] = process.argv.slice(2);
const browser = await chromium.launch(launching(executablePath));
const profiles = new Map();

async function partOfPage(url) {
  const answer = await fetch(url);
  return { status: answer.status, body: await answer.text(), contentType: answer.headers.get("content-type") };
}

/** Send a page's request over `line`, a simulated network that may lose requests. Files of the page bypass `line`. */
async function carry(route, line) {
  const request = route.request();
  const { pathname } = new URL(request.url());
  if (pathname.startsWith("/web/")) return route.fulfill(await partOfPage(line.base + pathname));
  const headers = { "content-type": "application/json" };
  try {
    const sent = { method: request.method(), headers, body: request.postData() ?? undefined };
    const { status, text } = await line.send(pathname, sent);
    return await route.fulfill({ status, body: text, contentType: "application/json" });
  } catch {
    return route.abort();
  }
}

/** Connect a client inside a page, and keep the client in `window.tab` for later tasks. */
async function begin(path) {
  const { BUILT_IN_MUTATORS, connect } = await import("/web/client/stratalog.js");
  const mutators = { ...BUILT_IN_MUTATORS, onlyHere: (draft, { key, item }) => draft.put(key, item) };
  const realNow = performance.now.bind(performance);
  const tab = { client: await connect(path, { mutators, start: false }), passedMs: 0 };
  performance.now = () => realNow() + tab.passedMs;
  Object.assign(window, { tab });
}

const inPage = {
  change: ([name, args]) =>
    window["tab"].client.mutate(name, args).then(
      () => true,
      () => false,
    ),
  sync: () => window["tab"].client.sync(),
  report() {
    const { client } = window["tab"];
    const failures = client.failures.map(({ status, args }) => ({ status, args }));
    return { shown: Object.fromEntries(client.scan()), pending: client.pending().map(({ args }) => args), failures };
  },
  passTime: (seconds) => void (window["tab"].passedMs += 1000 * seconds),
};

async function open({ group, path }, line) {
  if (!profiles.has(group)) profiles.set(group, await browser.newContext());
  const page = await profiles.get(group).newPage();
  await page.route("**/*", (route) => carry(route, line));
  await page.goto(ORIGIN + PAGE);
  await page.evaluate(begin, path);
  return {
    change: (name, args) => page.evaluate(inPage.change, [name, args]),
    sync: () => page.evaluate(inPage.sync),
    report: () => page.evaluate(inPage.report),
    passTime: (seconds) => page.evaluate(inPage.passTime, seconds),
    async restart() {
      await page.reload();
      await page.evaluate(begin, path);
    },
    close: () => page.close(),
  };
}

await answerTasks(open);
await browser.close();
