// Stories of users in windows with the real Replicache client, run as ../telling.mjs says. Each story has a new, empty
// document. Stories wait for conditions, never for a fixed time.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { task, tellStories } from "../telling.mjs";

const { chromium } = createRequire(new URL("../browser/", import.meta.url))("playwright-core");
const base = () => `${task.url}/v1/organisations/acme/documents/${task.story}`;
const WAIT_MS = 60_000;
const PUSHES = "**/replicache/push";
const PULLS = "**/replicache/pull";

/** Open the page in a window of a profile, and wait until it shows a state. */
async function windowOf(profile, hints = "events", release = "first") {
  const page = await profile.newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.on("pageerror", (error) => {
    console.error(error.stack);
    process.exit(1);
  });
  await page.goto(`${task.url}/page/index.html?document=${task.story}&hints=${hints}&release=${release}`);
  await shown(page);
  return page;
}

/** Wait for a condition that returns a promise. Playwright's `waitForFunction` would count the promise as true. */
async function until(page, condition, given) {
  const end = Date.now() + WAIT_MS;
  while (!(await evaluate(page, condition, given))) assert.ok(Date.now() < end, `waited in vain until ${condition}`);
}

/** Open windows of two users, who share only the server. */
async function twoWindows(browser) {
  return [await windowOf(await browser.newContext()), await windowOf(await browser.newContext(), "live")];
}

/** Run a task in the page, with the client of its module and an argument. */
async function evaluate(page, task, argument) {
  const client = await page.evaluateHandle(async () => (await import("/page/page.js")).client);
  return page.evaluate(task, [client, argument]);
}

const mutate = (page, name, args) =>
  evaluate(page, ([client, [called, given]]) => client.mutate[called](given), [name, args]);
const inc = (page) => mutate(page, "inc", { key: "n" });
const put = (page, key, value) => mutate(page, "put", { key, value });
const shown = (page) => page.waitForFunction(() => document.querySelector("#content").textContent);
const content = async (page) => JSON.parse(await page.textContent("#content"));
const shows = (page, expected) =>
  page.waitForFunction((text) => document.querySelector("#content").textContent === text, JSON.stringify(expected));
const settles = (page) => until(page, async ([client]) => (await client.experimentalPendingMutations()).length === 0);
const clientOf = (page) => evaluate(page, ([client]) => client.clientID);
const groupOf = (page) => evaluate(page, ([client]) => client.clientGroupID);

/** Wait until each page shows `expected` with nothing pending, and check that the server has the same state. */
async function agree(expected, ...pages) {
  for (const page of pages) {
    await shows(page, expected);
    await settles(page);
  }
  const state = await (await fetch(`${base()}/state`)).json();
  assert.deepEqual(state.content, expected);
}

/** Wait until the client has stored `text`. The client writes when it is idle. A reload reads only the storage. */
const isStored = (page, text) =>
  until(page, async ([client, wanted]) => {
    const done = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
    const connection = await done(indexedDB.open(client.idbName));
    const chunks = await done(connection.transaction("chunks").objectStore("chunks").getAll());
    connection.close();
    return JSON.stringify(chunks).includes(wanted);
  }, text);

const block = (profile, calls = PUSHES) => profile.route(calls, (route) => route.abort());
const letGo = (profile, calls = PUSHES) => profile.unroute(calls);

/**
 * Make the server refuse the document's pushes, or accept them again. Stories with a reload or a closed page need this:
 * Playwright lets a request pass that its routes should block, if the browser sends the request between two pages.
 */
async function refusePushes(isRefusing) {
  const body = String(Number(isRefusing));
  const set = await fetch(`${base()}/control/refusing`, { method: "PUT", body });
  assert.equal(await set.text(), body);
}

/** Make the server apply the next `number` pushes and then cut their connections, without an answer. */
async function cutAnswers(number) {
  const set = await fetch(`${base()}/control/cuts`, { method: "PUT", body: String(number) });
  assert.equal(await set.text(), String(number));
}

const areCut = (page) =>
  until(page, async ([, left]) => (await (await fetch(left)).text()) === "0", `${base()}/control/cuts`);

const stories = {
  async twoWindowsAgree(browser) {
    const [ada, bob] = await twoWindows(browser);
    assert.notEqual(await groupOf(ada), await groupOf(bob));
    await put(ada, "title", { parts: [1.5, null, true, "é"], text: "Plan" });
    await shows(bob, { title: { parts: [1.5, null, true, "é"], text: "Plan" } });
    await put(bob, "title", "By Bob");
    await Promise.all([inc(ada), inc(bob)]);
    await agree({ n: 2, title: "By Bob" }, ada, bob);
  },

  async tabsOfOneProfileAgree(browser) {
    const profile = await browser.newContext();
    const tabs = [await windowOf(profile), await windowOf(profile, "live")];
    const bob = await windowOf(await browser.newContext());
    assert.equal(await groupOf(tabs[0]), await groupOf(tabs[1]));
    assert.notEqual(await clientOf(tabs[0]), await clientOf(tabs[1]));
    for (let turn = 0; turn < 10; turn++) await Promise.all(tabs.map(inc));
    await agree({ n: 20 }, ...tabs, bob);
  },

  async offlineEditsAreRebased(browser) {
    const [ada, bob] = await twoWindows(browser);
    await put(ada, "n", 10);
    await agree({ n: 10 }, ada, bob);
    await ada.context().setOffline(true);
    await inc(ada);
    await inc(ada);
    await shows(ada, { n: 12 });
    await put(bob, "n", 100);
    await agree({ n: 100 }, bob);
    assert.deepEqual(await content(ada), { n: 12 });
    await ada.context().setOffline(false);
    await agree({ n: 102 }, ada, bob);
  },

  async aRejectedMutationIsReverted(browser) {
    const [ada, bob] = await twoWindows(browser);
    const statuses = [];
    ada.on("response", (answer) => answer.url().endsWith("/push") && statuses.push(answer.status()));
    await block(ada.context());
    await mutate(ada, "onlyHere", { key: "x", value: 1 });
    await put(ada, "y", "text");
    await shows(ada, { x: 1, y: "text" });
    // A pull can show the result of a push before the server answers the push.
    const answered = ada.waitForResponse((answer) => answer.url().endsWith("/push"));
    await letGo(ada.context());
    await agree({ y: "text" }, ada, bob);
    await answered;
    assert.deepEqual([...new Set(statuses)], [200]);
  },

  async aReloadKeepsWhatIsPending(browser) {
    const [ada, bob] = await twoWindows(browser);
    await put(ada, "a", 1);
    await agree({ a: 1 }, ada, bob);
    await refusePushes(true);
    await put(ada, "b", 2);
    await inc(ada);
    await isStored(ada, '"key":"n"');
    const [id, group] = [await clientOf(ada), await groupOf(ada)];
    for (let reloads = 0; reloads < 2; reloads++) {
      await ada.reload();
      await shows(ada, { a: 1, b: 2, n: 1 });
    }
    assert.notEqual(await clientOf(ada), id);
    assert.equal(await groupOf(ada), group);
    assert.deepEqual(await content(bob), { a: 1 });
    await refusePushes(false);
    await agree({ a: 1, b: 2, n: 1 }, ada, bob);
  },

  async whatAClosedTabLeavesIsSentOnce(browser) {
    const profile = await browser.newContext();
    const [staying, leaving] = [await windowOf(profile), await windowOf(profile)];
    await refusePushes(true);
    await inc(leaving);
    await inc(leaving);
    await isStored(leaving, '"n",2');
    await leaving.close();
    const next = await windowOf(profile);
    await shows(next, { n: 2 });
    await inc(staying);
    await refusePushes(false);
    await agree({ n: 3 }, staying, next);
  },

  async aNewReleaseSendsPendingMutationsOfTheOldRelease(browser) {
    const profile = await browser.newContext();
    const [old, bob] = [await windowOf(profile), await windowOf(await browser.newContext())];
    await put(old, "a", 1);
    await agree({ a: 1 }, old, bob);
    await refusePushes(true);
    await inc(old);
    await isStored(old, '"key":"n"');
    const group = await groupOf(old);
    await old.close();
    await refusePushes(false);
    const renewed = await windowOf(profile, "events", "second");
    await agree({ a: 1, n: 1 }, renewed, bob);
    assert.notEqual(await groupOf(renewed), group);
  },

  async mutationsWithALostAnswerAreAppliedOnce(browser) {
    const [ada, bob] = await twoWindows(browser);
    await block(ada.context(), PULLS);
    await cutAnswers(3);
    await inc(ada);
    await inc(ada);
    await areCut(ada);
    await inc(ada);
    await letGo(ada.context(), PULLS);
    await agree({ n: 3 }, ada, bob);
  },
};

await tellStories(chromium, () => stories);
