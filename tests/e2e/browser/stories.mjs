// Stories of users in one or two browsers, run in Chromium as ../telling.mjs says, against a server with the
// application of examples/demo_sync.py. Stories wait for conditions, never for a fixed time.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";
import { agree, count, evaluate, settles, until, waitForCount } from "./page.mjs";
import { session } from "./session.mjs";
import { launching, task, tellStories, untilResolved } from "../telling.mjs";

const [executablePath] = process.argv.slice(2);
const WAIT_MS = 60_000;
const SEED = Number(process.env.SEED ?? 1);
const SESSIONS = Number(process.env.SESSIONS ?? 8);

/** Open the page in a window of a profile, and wait until it has synchronised. */
async function windowOf(profile) {
  const page = await profile.newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.on("pageerror", (error) => {
    console.error(error.stack);
    process.exit(1);
  });
  return inStep(page);
}

async function inStep(page) {
  await page.goto(`${task.url}/web/movies/`);
  await until(page, ([client]) => client.version > 0);
  return page;
}

/** Write a store of version 1 (formats/browser.md) inside a page, without the client. */
async function writeStore([name, golden]) {
  const done = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
  const opening = indexedDB.open(name, 1);
  opening.onupgradeneeded = () => {
    const { result } = opening;
    result.createObjectStore("tabLeases", { keyPath: "tabLease" });
    result.createObjectStore("items");
    const keyPath = ["tabLease", "sequence"];
    for (const store of ["pending", "confirmed", "failures"]) result.createObjectStore(store, { keyPath });
  };
  const connection = await done(opening);
  const transaction = connection.transaction(Object.keys(golden), "readwrite");
  for (const [store, rows] of Object.entries(golden)) {
    for (const row of rows) await done(transaction.objectStore(store).put(row.value ?? row, row.value && row.key));
  }
  connection.close();
}

/** Open windows of two users, who share only the server. */
async function twoWindows(browser) {
  return [await windowOf(await browser.newContext()), await windowOf(await browser.newContext())];
}

async function open(page, key) {
  await page.evaluate((hash) => (location.hash = hash), key);
  await page.waitForSelector(`.row[data-key="${key}"][aria-selected="true"]`);
}

async function type(page, keystroke, text) {
  await page.focus("#list");
  await page.keyboard.press(keystroke);
  await page.waitForSelector(".row input:focus");
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
}

const retitle = (page, text) => type(page, "Enter", text);
const rate = (page, text) => type(page, "r", text);
const showsTitle = (page, title) =>
  page.waitForFunction((text) => document.querySelector("h2")?.textContent === text, title);
const hasOutcome = (page, key, outcome) => page.waitForSelector(`.row[data-key="${key}"][data-outcome="${outcome}"]`);
const says = (page, text) =>
  page.waitForFunction((wanted) => document.querySelector("#state").textContent.includes(wanted), text);
const goOffline = (page) => page.click("#online[aria-checked=true]");
const goOnline = (page) => page.click("#online[aria-checked=false]");

const stories = {
  async twoWindowsEditAndAgree(browser) {
    const [ada, bob] = await twoWindows(browser);
    const key = "movies/0101";
    await open(ada, key);
    await open(bob, key);
    await retitle(ada, "A title by Ada");
    await showsTitle(bob, "A title by Ada");
    await rate(bob, "9.5");
    await until(ada, ([client, name]) => client.get(name)["IMDB Rating"] === 9.5, key);
    await Promise.all([settles(ada), settles(bob)]);
    await agree(ada, bob);
    await ada.waitForSelector(`.row[data-key="${key}"] .people i`);
    assert.equal((await ada.locator("#people i").count()) >= 2, true);
  },

  async anOfflineEditIsSentOnReturn(browser) {
    const [ada, bob] = await twoWindows(browser);
    const key = "movies/0102";
    await open(ada, key);
    await open(bob, key);
    await goOffline(ada);
    await retitle(ada, "Made offline");
    await showsTitle(ada, "Made offline");
    await hasOutcome(ada, key, "pending");
    await says(ada, "1 change waits");
    await rate(bob, "2");
    await settles(bob);
    assert.notEqual(await bob.textContent("h2"), "Made offline");
    await goOnline(ada);
    await showsTitle(bob, "Made offline");
    await settles(ada);
    assert.equal((await evaluate(ada, ([client, name]) => client.get(name), key))["IMDB Rating"], 2);
    await agree(ada, bob);
  },

  async changesAreSentWhenALostNetworkReturns(browser) {
    const [ada, bob] = await twoWindows(browser);
    const key = "movies/0103";
    await open(ada, key);
    await open(bob, key);
    await ada.context().setOffline(true);
    await retitle(ada, "Through the tunnel");
    await until(ada, ([client]) => client.lastError?.code === "outcome-unknown");
    await ada.context().setOffline(false);
    await showsTitle(bob, "Through the tunnel");
    await settles(ada);
  },

  async aRejectedChangeIsRevertedAndOfferedAgain(browser) {
    const [ada, bob] = await twoWindows(browser);
    const key = "movies/0104";
    await open(ada, key);
    await open(bob, key);
    await goOffline(ada);
    await retitle(ada, "Ada’s title");
    await retitle(bob, "Bob’s title");
    await settles(bob);
    await goOnline(ada);
    await ada.waitForSelector(".failure");
    assert.match(await ada.textContent(".failure"), /“Ada’s title” was not kept: it is now called “Bob’s title”/);
    await showsTitle(ada, "Bob’s title");
    await hasOutcome(ada, key, "rejected");
    await ada.reload();
    await ada.click(".failure button");
    await showsTitle(bob, "Ada’s title");
    await ada.waitForSelector(".failure", { state: "detached" });
    await settles(ada);
    await agree(ada, bob);
  },

  async anInvalidChangeIsRefusedBeforeAPush(browser) {
    const ada = await windowOf(await browser.newContext());
    const key = "movies/0105";
    await open(ada, key);
    const before = await evaluate(ada, ([client, name]) => client.get(name), key);
    await rate(ada, "11");
    await ada.waitForSelector(".acts em:text-is('a rating lies between 0 and 10')");
    assert.deepEqual(await evaluate(ada, ([client, name]) => client.get(name), key), before);
    assert.equal(await evaluate(ada, ([client]) => client.pending().length), 0);
  },

  async anUndoRevertsOnlyTheUsersOwnChange(browser) {
    const [ada, bob] = await twoWindows(browser);
    const key = "movies/0106";
    await open(ada, key);
    await open(bob, key);
    const before = await ada.textContent("h2");
    await retitle(ada, "For a moment");
    await showsTitle(bob, "For a moment");
    await rate(bob, "3");
    await until(ada, ([client, name]) => client.get(name)["IMDB Rating"] === 3, key);
    await ada.focus("#list");
    await ada.keyboard.press("u");
    await showsTitle(bob, before);
    assert.equal((await evaluate(bob, ([client, name]) => client.get(name), key))["IMDB Rating"], 3);
  },

  async anEarlierVersionCanBeRestored(browser) {
    const ada = await windowOf(await browser.newContext());
    const key = "movies/0107";
    await open(ada, key);
    const before = await ada.textContent("h2");
    await retitle(ada, "A mistake");
    await settles(ada);
    await ada.waitForFunction(() => document.querySelector("input[type=range]").getAttribute("max") === "1");
    await ada.keyboard.press("[");
    await showsTitle(ada, before);
    await ada.click(".history button");
    await until(ada, ([client, [name, title]]) => String(client.get(name).Title) === title, [key, before]);
    await settles(ada);
  },

  async aReloadKeepsWhatIsPending(browser) {
    const [ada, bob] = await twoWindows(browser);
    const key = "movies/0108";
    await open(ada, key);
    await open(bob, key);
    await ada.route("**/push", (route) => route.abort());
    const id = await evaluate(ada, ([client]) => client.id);
    await retitle(ada, "Kept through reloads");
    await until(ada, ([client]) => client.lastError !== null);
    for (let reloads = 0; reloads < 2; reloads++) {
      await ada.reload();
      await showsTitle(ada, "Kept through reloads");
      await hasOutcome(ada, key, "pending");
      assert.equal(await evaluate(ada, ([client]) => client.id), id);
    }
    await ada.unroute("**/push");
    await showsTitle(bob, "Kept through reloads");
    await settles(ada);
    await agree(ada, bob);
  },

  async aCrashedBrowserLosesNoPendingMutation() {
    const first = await chromium.launchPersistentContext(task.folder, launching(executablePath));
    const ada = await windowOf(first);
    await evaluate(ada, async ([client]) => {
      client.stop();
      for (let times = 0; times < 5; times++) await client.mutate("inc", { key: "count/died" });
    });
    const gone = new Promise((resolve) => first.once("close", resolve));
    const session = await first.newCDPSession(ada);
    session.send("Browser.crash").catch(() => {});
    await gone;
    const second = await chromium.launchPersistentContext(task.folder, launching(executablePath));
    const again = await windowOf(second);
    await waitForCount(again, "count/died", 5);
    await settles(again);
    await second.close();
  },

  async mutationsWithALostAnswerAreAppliedOnce(browser) {
    const [ada, bob] = await twoWindows(browser);
    let lost = 0;
    await ada.route("**/push", async (route) => {
      if (lost >= 3) return route.continue();
      lost += 1;
      await route.fetch();
      await route.abort();
    });
    await evaluate(ada, async ([client]) => {
      for (let times = 0; times < 10; times++) await client.mutate("inc", { key: "count/lost" });
    });
    await waitForCount(bob, "count/lost", 10);
    await settles(ada);
    assert.equal(lost >= 1, true);
    assert.equal(await count(bob, "count/lost"), 10);
    await agree(ada, bob);
  },

  async tabsOfAProfileAreSeparateClients(browser) {
    const profile = await browser.newContext();
    const tabs = [await windowOf(profile), await windowOf(profile), await windowOf(profile)];
    const ids = await Promise.all(tabs.map((tab) => evaluate(tab, ([client]) => client.id)));
    assert.equal(new Set(ids).size, 3);
    await Promise.all(
      tabs.map((tab) =>
        evaluate(tab, async ([client]) => {
          for (let times = 0; times < 20; times++) await client.mutate("inc", { key: "count/tabs" });
        }),
      ),
    );
    await Promise.all(tabs.map((tab) => waitForCount(tab, "count/tabs", 60)));
    await Promise.all(tabs.map(settles));
    await agree(...tabs);
  },

  async whatAClosedTabLeavesIsSentOnce(browser) {
    const profile = await browser.newContext();
    const [staying, leaving] = [await windowOf(profile), await windowOf(profile)];
    const bystander = await windowOf(profile);
    await evaluate(leaving, async ([client]) => {
      client.stop();
      for (let times = 0; times < 7; times++) await client.mutate("inc", { key: "count/left" });
    });
    await leaving.close();
    // Chromium releases the lock of a closed tab a little later. Until the release, no tab may take over its mutations.
    await untilResolved(staying, async () => (await navigator.locks.query()).held.length <= 2);
    // `staying` and `bystander` have no mutations of their own. `lose` aborts the first two pushes of these tabs.
    let pushes = 0;
    const lose = (route) => (++pushes <= 2 ? route.abort() : route.continue());
    await Promise.all([staying, bystander].map((tab) => tab.route("**/push", lose)));
    await Promise.all([staying, bystander].map((tab) => evaluate(tab, ([client]) => client.hurry())));
    await waitForCount(staying, "count/left", 7);
    await waitForCount(bystander, "count/left", 7);
    assert.ok(pushes > 2);
    await settles(staying);
    const countTabLeases = () =>
      staying.evaluate(async () => {
        const [{ name }] = await indexedDB.databases();
        const opening = indexedDB.open(name);
        await new Promise((resolve) => (opening.onsuccess = resolve));
        const connection = opening.result;
        const request = connection.transaction("tabLeases").objectStore("tabLeases").count();
        return new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
      });
    while ((await countTabLeases()) !== 2) await evaluate(staying, ([client]) => client.hurry());
    assert.equal(await count(staying, "count/left"), 7);
  },

  async faultsOfAllKindsEndInAgreement(browser) {
    const page = await (await browser.newContext()).newPage();
    await page.goto(`${task.url}/web/client/stratalog.d.ts`);
    let rejected = 0;
    for (let seed = SEED; seed < SEED + SESSIONS; seed++) {
      const report = await page.evaluate(session, seed);
      assert.deepEqual(report.faults, [], `SEED=${seed} SESSIONS=1 runs it again`);
      rejected += report.rejected;
    }
    assert.equal(rejected > 0 || SESSIONS === 1, true);
  },

  async tokensAreSentOnlyInHeadersAndMessages(browser) {
    const page = await (await browser.newContext()).newPage();
    const requests = [];
    page.on("request", (request) => requests.push(request));
    const greeted = new Promise((resolve) => {
      page.on("websocket", (socket) => {
        socket.on("framesent", ({ payload }) => resolve([socket.url(), JSON.parse(payload)]));
      });
    });
    await page.goto(`${task.url}/web/client/stratalog.d.ts`);
    await page.evaluate(async () => {
      const { connect } = await import("/web/client/stratalog.js");
      const token = async () => "secret";
      const client = await connect("/v1/organisations/demo/documents/guarded", { create: true, token });
      await (
        await client.mutate("inc", { key: "count" })
      ).settled;
    });
    const [socket, greeting] = await greeted;
    assert.deepEqual(greeting, { type: "hello", token: "secret" });
    const asked = requests.filter((request) => request.url().includes("/v1/"));
    assert.equal(asked.length >= 3, true);
    for (const request of asked) assert.equal(request.headers().authorization, "Bearer secret");
    for (const address of [socket, ...requests.map((request) => request.url())]) assert.doesNotMatch(address, /secret/);
  },

  async aStoreOfTheFirstFormatIsRead(browser) {
    const golden = JSON.parse(
      readFileSync(new URL("../../../formats/golden/browser-v1.json", import.meta.url), "utf8"),
    );
    const page = await (await browser.newContext()).newPage();
    await page.goto(`${task.url}/web/client/stratalog.d.ts`);
    await page.evaluate(writeStore, [`stratalog ${task.url}/v1/organisations/demo/documents/movies `, golden]);
    await inStep(page);
    await settles(page);
    assert.equal(await count(page, "count/golden"), 2);
    assert.equal(await count(page, "count/open"), 0);
    const failures = await evaluate(page, ([client]) => client.failures.map(({ status, args }) => [status, args.key]));
    assert.deepEqual(failures, [
      ["rejected", "title"],
      ["unknown", "count/open"],
    ]);
  },

  async aClientWithoutPokesPollsTheServer(browser) {
    const [ada, bob] = await twoWindows(browser);
    await bob.routeWebSocket("**/live", (socket) => socket.close());
    await bob.reload();
    await until(bob, ([client]) => client.version > 0 && !client.lastError);
    await evaluate(ada, ([client]) => client.mutate("inc", { key: "count/unheard" }));
    await waitForCount(bob, "count/unheard", 1);
  },
};

await tellStories(chromium, () => stories);
