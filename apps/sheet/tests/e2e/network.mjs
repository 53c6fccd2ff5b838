// Stories of a network and a server that fail for a while, beside other changes of the sheet.

import assert from "node:assert/strict";
import * as people from "./people.mjs";

const { agree, evaluate, gate, goOffline, goOnline, isOpen, isSaved, move, open, send, shows, showVersion } = people;
const { textOf, type, windowOf } = people;

const UNAVAILABLE = {
  status: 503,
  contentType: "application/json",
  body: JSON.stringify({ code: "unavailable", message: "the store is unavailable" }),
};

/** Answer the requests for a path with 503 until `end` is called. `happens` waits until `count` were answered. */
async function fail(page, path) {
  const pattern = `**/sheets/*/${path}*`;
  const checks = [];
  let failures = 0;
  await page.route(pattern, async (route) => {
    // Count an answer only once the browser has it: a story may call `end` immediately, which lets open requests pass.
    await route.fulfill(UNAVAILABLE);
    failures += 1;
    for (const check of checks) check();
  });
  return {
    happens: (count = 1) =>
      new Promise((resolve) => {
        const check = () => failures >= count && resolve(undefined);
        checks.push(check);
        check();
      }),
    end: () => page.unroute(pattern),
  };
}

export const network = ({ url, story, two }) => ({
  async textBeingTypedSurvivesAReload(browser) {
    const [ada, bob] = await two(browser);
    await type(ada, "A1", "complete");
    await ada.keyboard.type("half a sentence");
    await ada.reload();
    await isOpen(ada);
    await shows(bob, "A2", "half a sentence");
    await agree(url, story, ada, bob);
  },

  async aReloadIsRepeatedWhileTheServerFails(browser) {
    const [ada, bob] = await two(browser, { A1: "first", A2: "second" });
    const failure = await fail(ada, "load");
    await send(url, story, "POST", "/restore?author=Program", { version: 2 });
    await failure.happens(2);
    assert.equal(await evaluate(ada, ([{ workbook }]) => workbook.connectionStatus), "disconnected");
    await type(ada, "B5", "typed meanwhile");
    await failure.end();
    await shows(bob, "B5", "typed meanwhile");
    await shows(ada, "A2", "");
    await agree(url, story, ada, bob);
  },

  async pendingTextFollowsItsCellAfterAFailedRequest(browser) {
    const [ada, bob] = await two(browser, { A1: "first", A5: "fifth" });
    await send(url, story, "POST", "/rows", { row: 1 });
    await shows(ada, "A6", "fifth");
    await goOffline(ada);
    await type(ada, "B6", "beside the fifth");
    await send(url, story, "POST", "/restore?author=Program", { version: 3 });
    const failure = await fail(ada, "moves");
    await goOnline(ada);
    await failure.happens();
    await failure.end();
    await shows(bob, "B5", "beside the fifth");
    await agree(url, story, ada, bob);
  },

  async aSentChangeBeforeARestoreIsNotRepeatedAfterAFailedRequest(browser) {
    const [ada, bob] = await two(browser, { A1: "first" });
    let isSent = false;
    await ada.route("**/append*", async (route) => {
      if (!isSent) await route.fetch();
      isSent = true;
      await route.abort();
    });
    const reads = await fail(ada, "entries");
    await type(ada, "B2", "sent");
    await shows(bob, "B2", "sent");
    await send(url, story, "POST", "/restore?author=Program", { version: 2 });
    await shows(bob, "B2", "");
    // The page learns of the restore from its first read, and its second read fails.
    let count = 0;
    await ada.route("**/entries*", (route) => (count++ === 1 ? route.fulfill(UNAVAILABLE) : route.continue()));
    await reads.end();
    await shows(ada, "B2", "");
    await ada.unroute("**/append*");
    await isSaved(ada);
    await agree(url, story, ada, bob);
    assert.ok(count > 1);
    assert.equal(await textOf(bob, "B2"), "");
  },

  async pendingTextFollowsItsCellIfAnotherTabHasLoadedARestoredVersion(browser) {
    const texts = { B6: "beside the fifth", B1: "in the row that came" };
    const [bob, tab, again] = await restoreWithPendingTexts({ url, story, two }, browser, texts);
    await open(again, url, story);
    await shows(bob, "B5", "beside the fifth");
    await again.locator("[data-conflict=deleted]", { hasText: "in the row that came" }).waitFor();
    await agree(url, story, tab, again, bob);
  },

  async aCachedSheetOpensWhileTheServerIsUnavailable(browser) {
    const [ada, bob] = await two(browser, { A1: "first" });
    await goOffline(ada);
    await type(ada, "B2", "pending");
    await ada.route("**/v1/**", (route) => route.fulfill(UNAVAILABLE));
    await ada.reload();
    await isOpen(ada);
    await shows(ada, "B2", "pending");
    await ada.unroute("**/v1/**");
    await shows(bob, "B2", "pending");
    await agree(url, story, ada, bob);
  },

  async thePageShowsTheNewestTitleAndVersionNamesAfterARestore(browser) {
    const [ada] = await two(browser, { A1: "first" });
    await goOffline(ada);
    await send(url, story, "POST", "/rename", { title: "New title" });
    await send(url, story, "POST", "/versions", { version: 1, label: "Empty" });
    await send(url, story, "POST", "/restore", { version: 1 });
    await goOnline(ada);
    await shows(ada, "A1", "");
    await ada.waitForFunction(() => /Version 5/.test(document.querySelector(".when").textContent));
    assert.equal(await ada.textContent("#title"), "New title");
    await ada.locator('[aria-label="Version 1, Empty"]').waitFor();
  },

  async aPageThatReloadsARestoredSheetWhileItOpensShowsTheSheetOnce(browser) {
    const [ada, bob] = await two(browser, { A1: "first" });
    await goOffline(ada);
    await type(ada, "B6", "pending");
    const profile = ada.context();
    await ada.close();
    await send(url, story, "POST", "/restore?author=Program", { version: 2 });
    const again = await windowOf(profile);
    const templates = gate();
    await again.route("**/*.xml", (route) => templates.passed.then(() => route.continue()));
    await again.goto(`${url}/web/sheet/edit.html?in=local&sheet=${story}`);
    await again.locator("#opening").waitFor({ state: "hidden" });
    templates.open();
    await isOpen(again);
    await shows(bob, "B6", "pending");
    assert.equal(await again.locator("#now .o-spreadsheet").count(), 1);
  },

  async aSecondRestoreBeforeTheFirstIsDrawnKeepsTheView(browser) {
    const [ada] = await two(browser, { A1: "first" });
    await people.choose(ada, "D50");
    await ada.evaluate(() => {
      const later = globalThis.requestAnimationFrame.bind(globalThis);
      globalThis.held = [];
      globalThis.requestAnimationFrame = (callback) =>
        globalThis.held ? globalThis.held.push(callback) : later(callback);
    });
    for (const version of [3, 4]) {
      await send(url, story, "POST", "/restore", { version: 1 });
      while ((await people.versionOf(ada)) < version) await isSaved(ada);
    }
    await ada.evaluate(() => {
      const callbacks = globalThis.held;
      globalThis.held = null;
      callbacks.forEach((callback) => requestAnimationFrame(callback));
    });
    await people.until(ada, ([{ workbook }]) => {
      const { col, row } = workbook.model.getters.getActivePosition();
      return col === 3 && row === 49;
    });
  },

  async aSheetWithPendingTextFromBeforeARestoreOpensOnlyWithTheServer(browser) {
    const texts = { B6: "beside the fifth" };
    const [bob, tab, again] = await restoreWithPendingTexts({ url, story, two }, browser, texts);
    await again.route("**/v1/**", (route) => route.fulfill(UNAVAILABLE));
    await again.goto(`${url}/web/sheet/edit.html?in=local&sheet=${story}`);
    await again.locator("#opening", { hasText: "store is unavailable" }).waitFor();
    await again.unroute("**/v1/**");
    await again.reload();
    await shows(bob, "B5", "beside the fifth");
    await isOpen(again);
    await agree(url, story, tab, again, bob);
  },

  async aSheetIsShownAfterAFailedRequestForTheTemplates(browser) {
    const [ada] = await two(browser, { A1: "first" });
    let requests = 0;
    await ada.route("**/*.xml", (route) => (requests++ ? route.continue() : route.fulfill(UNAVAILABLE)));
    await ada.reload();
    await isOpen(ada);
    await type(ada, "A2", "second");
    assert.equal(await textOf(ada, "A2"), "second");
  },

  async aLateVersionIsNotShownInPlaceOfTheChosenVersion(browser) {
    const [ada] = await two(browser, { A1: "first", A2: "second" });
    await send(url, story, "POST", "/restore", { version: 2 });
    await people.write(url, story, "A3", "third");
    await people.hasVersion(ada, 5);
    await showVersion(ada, 4);
    const answer = gate();
    await ada.route("**/load?at=3*", (route) => answer.passed.then(() => route.continue()));
    const [request] = await Promise.all([ada.waitForRequest("**/load?at=3*"), move(ada, 3)]);
    // The page asks for the facts of a version after it has shown the version.
    await Promise.all([ada.waitForResponse("**/activity?before=5&limit=1*"), move(ada, 4)]);
    const late = isFinished(ada, request);
    answer.open();
    await late;
    await showVersion(ada, 2);
    await Promise.all([ada.waitForResponse("**/activity?before=2&limit=1*"), move(ada, 1)]);
    assert.deepEqual(await shownCells(ada), {});
  },

  async lateEntriesOfAnEarlierSliderMoveAreNotReadTwice(browser) {
    const [ada] = await two(browser, { A1: "first" });
    await showVersion(ada, 1);
    for (const text of ["second", "third", "fourth"]) await people.write(url, story, "A1", text);
    await people.hasVersion(ada, 5);
    const answer = gate();
    let reads = 0;
    const slow = (route) => (reads++ ? route.continue() : answer.passed.then(() => route.continue()));
    await ada.route("**/entries?after=1*", slow);
    const [request] = await Promise.all([ada.waitForRequest("**/entries?after=1*"), move(ada, 3)]);
    await showVersion(ada, 4);
    const late = isFinished(ada, request);
    answer.open();
    await late;
    for (const text of ["fifth", "sixth"]) await people.write(url, story, "A1", text);
    await people.hasVersion(ada, 7);
    await showVersion(ada, 6);
    assert.deepEqual(await shownCells(ada), { A1: "fifth" });
  },

  async messagesShownTogetherDoNotCoverEachOther(browser) {
    const page = await people.person(browser, "Ada Lace");
    await page.goto(`${url}/web/sheet/`);
    const [first, second] = await page.evaluate(async () => {
      const { toast } = await import(`${location.origin}/web/sheet/dom.js`);
      for (const text of ["a first message", "a second message"]) toast(text);
      return [...document.querySelectorAll(".notice")].map((notice) => notice.getBoundingClientRect().toJSON());
    });
    assert.ok(first.height > 0 && first.bottom <= second.top, JSON.stringify([first, second]));
  },

  async aFailedMoveOfTheSliderReturnsToTheShownVersion(browser) {
    const [ada] = await two(browser, { A1: "first", A2: "second" });
    const failure = await fail(ada, "load");
    await move(ada, 2);
    await failure.happens();
    await people.isNotified(ada, "store is unavailable");
    await ada.waitForFunction(() => document.body.dataset.time === "now");
    await failure.end();
    await showVersion(ada, 2);
    assert.deepEqual(await shownCells(ada), { A1: "first" });
  },
});

/**
 * Let one tab of a user store pending texts and close, and another tab load a restored version. Return another user's
 * page, the other tab, and a new tab of the first user.
 */
async function restoreWithPendingTexts({ url, story, two }, browser, texts) {
  const [ada, bob] = await two(browser, { A1: "first", A5: "fifth" });
  await send(url, story, "POST", "/rows", { row: 1 });
  await shows(ada, "A6", "fifth");
  const tab = await windowOf(ada.context());
  await open(tab, url, story);
  await goOffline(ada);
  for (const [cell, text] of Object.entries(texts)) await type(ada, cell, text);
  await ada.close();
  await send(url, story, "POST", "/restore?author=Program", { version: 3 });
  await shows(tab, "A5", "fifth");
  await isSaved(tab);
  return [bob, tab, await windowOf(tab.context())];
}

/**
 * Wait until a page has the whole response to a request. Chromium may report such a request as aborted: a page that
 * reads the response as a stream may drop it before the network has reported the end.
 */
function isFinished(page, request) {
  const ends = ["requestfinished", "requestfailed"];
  return Promise.any(ends.map((event) => page.waitForEvent(event, (each) => each === request)));
}

/** Return the cells of the model that the canvas of earlier versions shows. */
const shownCells = (page) =>
  page.evaluate(() => {
    const roots = [...globalThis.owl.App.apps].map((app) => app.root.component.props);
    const { model } = roots.find(({ element }) => element.id === "then").spreadsheet;
    return model._exportData(false).sheets[0].cells;
  });
