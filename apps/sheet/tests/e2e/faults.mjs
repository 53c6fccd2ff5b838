// Stories of pages in which the engine fails, at another user's change or at pending changes.

import assert from "node:assert/strict";
import * as people from "./people.mjs";

const { agree, choose, evaluate, goOffline, goOnline, isOpen, shows, textOf, type } = people;

/** Return a script that makes a view fail at each command with the text while `sessionStorage.failing` is set. */
const FAILING = (text) => `;{
  const views = o_spreadsheet.registries.coreViewsPluginRegistry;
  class Evaluation extends views.get("evaluation") {
    handle(command) {
      if (sessionStorage.failing && command.content === "${text}") throw new TypeError("the engine cannot do this");
      super.handle(command);
    }
  }
  views.replace("evaluation", Evaluation);
}`;

export const faults = ({ url, story, two }) => ({
  async aPageWhoseEngineFailsTakesNoMoreEdits(browser) {
    const [ada, bob] = await two(browser, { A1: "one" });
    await goOffline(ada);
    await type(ada, "A2", "stored");
    await type(bob, "C1", "of another");
    await choose(ada, "B4");
    await ada.keyboard.type("half");
    await ada.waitForFunction(() => document.querySelector(".o-grid-composer")?.textContent === "half");
    await evaluate(ada, ([{ workbook }]) => {
      const [handler] = workbook.model.handlers.slice(-1);
      handler.finalize = () => {
        delete handler.finalize;
        throw new TypeError("the engine has failed");
      };
    });
    await goOnline(ada);
    await ada.waitForSelector("#gone:not([hidden])");
    const words = await ada.textContent("#gone");
    assert.match(words, /has stopped.*The engine has failed.*1 change, stored.*in B4: half/);
    assert.equal(await ada.textContent("#state"), "Stopped");
    await ada.mouse.click(400, 400);
    await ada.keyboard.type("lost");
    await ada.keyboard.press("Enter");
    assert.doesNotMatch(await people.stateOf(ada), /lost|half/);
    const outcome = await evaluate(ada, ([{ workbook }, sheetId]) => {
      const command = { sheetId, col: 3, row: 3, content: "lost" };
      return workbook.model.dispatch("UPDATE_CELL", command).reasons;
    }, people.SHEET);
    assert.deepEqual(outcome, ["Readonly"]);
    await ada.click("#gone button");
    await isOpen(ada);
    await shows(bob, "A2", "stored");
    await type(ada, "B4", "again");
    await shows(bob, "B4", "again");
    await agree(url, story, ada, bob);
  },

  async aSheetNamesTheCommittedChangesThatTheEngineCannotUse(browser) {
    const [ada, bob] = await two(browser, { A1: "one" });
    const chart = { type: "CREATE_CHART", sheetId: people.SHEET, figureId: "f", chartId: "c", definition: {} };
    const { serverRevisionId, version } = await evaluate(ada, ([{ workbook }]) => {
      const { serverRevisionId } = workbook.model.session;
      return { serverRevisionId, version: workbook.version };
    });
    const text = { type: "UPDATE_CELL", sheetId: "nosuch", col: 0, row: 0, content: "precious" };
    const ids = { serverRevisionId, nextRevisionId: "unusable", clientId: "mallory" };
    const message = { type: "REMOTE_REVISION", version: 1, ...ids, commands: [chart, text] };
    await people.send(url, story, "POST", "/append?author=Mallory", { message });
    for (const page of [ada, bob]) {
      await people.isNotified(page, `sheet lacks them: v${version + 1}`);
      await page.reload();
      await isOpen(page);
      await people.isNotified(page, `sheet lacks them: v${version + 1}`);
      await page.click("#history");
      await page.locator("[data-refused=CREATE_CHART]", { hasText: "Left out: CREATE_CHART" }).waitFor();
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      await page.locator("[data-refused=UPDATE_CELL]", { hasText: "precious" }).getByRole("button").click();
      await people.isNotified(page, "on the clipboard");
      assert.deepEqual(JSON.parse(await page.evaluate(() => navigator.clipboard.readText())), text);
    }
    await type(ada, "A2", "two");
    await shows(bob, "A2", "two");
    await agree(url, story, ada, bob);
  },

  async aSheetOpensWithoutItsPendingChangesIfTheEngineFailsAtThem(browser) {
    const [ada, bob] = await two(browser, { A1: "one" });
    await goOffline(ada);
    await type(ada, "A2", "poison");
    await type(ada, "A3", "waited");
    await type(bob, "A1", "two");
    await people.send(url, story, "POST", "/rows?author=Program", { row: 1 });
    await ada.route("**/o_spreadsheet.min.iife.js", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: (await response.text()) + FAILING("poison") });
    });
    await ada.evaluate(() => (sessionStorage.failing = "true"));
    for (let times = 0; times < 2; times++) {
      await ada.reload();
      await isOpen(ada);
      await ada.locator("[data-conflict=refused]", { hasText: "poison" }).waitFor({ state: "visible" });
      await ada.locator("[data-conflict=refused]", { hasText: "waited" }).waitFor({ state: "visible" });
      assert.match(await ada.locator("#panel-body").innerText(), /A3 of Sheet1[^]*The engine cannot do this/);
      assert.deepEqual([await textOf(ada, "A2"), await textOf(ada, "A3"), await textOf(ada, "A4")], ["two", "", ""]);
    }
    await ada.evaluate(() => sessionStorage.removeItem("failing"));
    await ada.reload();
    await isOpen(ada);
    await ada.getByRole("button", { name: "Put back: A3" }).click();
    await shows(bob, "A3", "poison");
    await agree(url, story, ada, bob);
  },

  async pendingChangesThatTheBrowserCouldNotStoreAreStoredAtTheNextCall(browser) {
    const page = await people.person(browser, "Ada Lace");
    await page.goto(`${url}/web/sheet/`);
    const result = await page.evaluate(async (name) => {
      const { OfflineCache } = await import(`${location.origin}/web/sheet/offlineCache.js`);
      const cache = await OfflineCache.open(name);
      const store = () => cache.putPending(1, [{ nextRevisionId: "one" }], "", { changes: 0 });
      const { put } = IDBObjectStore.prototype;
      IDBObjectStore.prototype.put = () => {
        throw new DOMException("full", "QuotaExceededError");
      };
      const failure = await store().catch((error) => error.name);
      IDBObjectStore.prototype.put = put;
      const wasStored = cache.isStored;
      await store();
      return [failure, wasStored, cache.isStored, (await cache.load()).pending?.messages.length];
    }, story);
    assert.deepEqual(result, ["QuotaExceededError", false, true, 1]);
  },
});
