// Stories of a cell that is being edited while others change the sheet, of offline and concurrent edits of two users,
// of a restore during edits, of a refused change, and of the question before a sort.

import assert from "node:assert/strict";
import * as people from "./people.mjs";

const { agree, choose, evaluate, gate, goOffline, goOnline, hasVersion, isOpen, isSaved } = people;
const { open, send, shows, textOf, type, versionOf, windowOf } = people;
const SHEET = people.SHEET;

/** Dispatch a command to the page's model, as a menu of the engine does. */
const dispatch = (page, name, payload) =>
  evaluate(page, ([{ workbook }, [kind, data]]) => workbook.model.dispatch(kind, data), [name, payload]);
const insert = (page, dimension, base, sheetId = SHEET) => {
  const sheetName = sheetId === SHEET ? "Sheet1" : "Other";
  return dispatch(page, "ADD_COLUMNS_ROWS", { sheetId, sheetName, dimension, base, quantity: 1, position: "before" });
};
const remove = (page, dimension, element, sheetId = SHEET) => {
  const sheetName = sheetId === SHEET ? "Sheet1" : "Other";
  return dispatch(page, "REMOVE_COLUMNS_ROWS", { sheetId, sheetName, dimension, elements: [element] });
};
const addSheet = (page) => dispatch(page, "CREATE_SHEET", { sheetId: "other", name: "Other", position: 1 });

/** Begin to type in a cell, and wait until the engine has the text. */
async function begin(page, cell, text) {
  await choose(page, cell);
  await page.keyboard.type(text);
  await page.waitForFunction((typed) => document.querySelector(".o-grid-composer")?.textContent === typed, text);
}

/** Wait until a page has all changes of another page. */
async function follow(page, other) {
  await isSaved(other);
  await hasVersion(page, await versionOf(other));
}

const awayText = (page) => page.locator("#panel-body").innerText();
const isListed = async (page, kind, text) => {
  const item = page.locator(`[data-conflict=${kind}]`, { hasText: text }).first();
  await item.waitFor({ state: "visible" }).catch(async (error) => {
    const [status, version] = await evaluate(page, ([{ workbook }]) => [workbook.connectionStatus, workbook.version]);
    const listed = await page.locator("[data-conflict]").allTextContents();
    const state = `${JSON.stringify(listed)}; ${status} at version ${version}`;
    throw new Error(`${kind} ${text} is not in ${state}`, { cause: error });
  });
};
const count = (page) => page.locator("[data-conflict]").count();
const click = (page, name) => page.getByRole("button", { name, exact: false }).first().click();

export const away = ({ url, story, two }) => ({
  async typedTextStaysInItsCellWhenRowsAndColumnsAreInsertedOrRemoved(browser) {
    const [ada, bob] = await two(browser);
    await addSheet(bob);
    /** @type {[string, () => Promise<unknown>, string][]} */
    const steps = [
      ["B4", () => insert(bob, "ROW", 0), "B5"],
      ["D10", () => insert(bob, "COL", 0), "E10"],
      ["B15", () => remove(bob, "ROW", 0), "B14"],
      ["E20", () => remove(bob, "COL", 0), "D20"],
      ["C22", () => insert(bob, "ROW", 0, "other"), "C22"],
      ["C24", () => remove(bob, "ROW", 23, "other"), "C24"],
    ];
    for (const [cell, act, expected] of steps) {
      await begin(ada, cell, `typed in ${cell}`);
      await act();
      await follow(ada, bob);
      await ada.keyboard.press("Enter");
      await shows(bob, expected, `typed in ${cell}`);
      const below = await evaluate(ada, ([{ workbook }]) => workbook.model.getters.getActivePosition().row);
      assert.equal(below, Number(expected.slice(1)), `below ${expected}`);
    }
    await agree(url, story, ada, bob);
  },

  async aPendingInsertionDoesNotMoveATypedCellTwice(browser) {
    const [ada, bob] = await two(browser);
    await ada.route("**/append*", (route) => route.abort());
    await insert(ada, "ROW", 0);
    await begin(ada, "B4", "typed while it waits");
    await type(bob, "F9", "elsewhere");
    await insert(bob, "ROW", 1);
    await follow(ada, bob);
    await ada.keyboard.press("Enter");
    assert.equal(await textOf(ada, "B5"), "typed while it waits");
    await begin(ada, "B7", "above what waits");
    await insert(bob, "ROW", 0);
    await follow(ada, bob);
    await ada.keyboard.press("Enter");
    assert.equal(await textOf(ada, "B8"), "above what waits");
    await ada.unroute("**/append*");
    await shows(bob, "B6", "typed while it waits");
    await shows(bob, "B8", "above what waits");
    await agree(url, story, ada, bob);
  },

  async aTypedCellMovesWithAPendingInsertionThatTheEngineRebased(browser) {
    const [ada, bob] = await two(browser);
    await ada.route("**/append*", (route) => route.abort());
    await insert(ada, "ROW", 5);
    await insert(bob, "ROW", 0);
    await follow(ada, bob);
    await begin(ada, "B6", "above the row that waits");
    await insert(bob, "ROW", 5);
    await follow(ada, bob);
    await ada.keyboard.press("Enter");
    assert.equal(await textOf(ada, "B7"), "above the row that waits");
    await ada.unroute("**/append*");
    await shows(bob, "B7", "above the row that waits");
    await agree(url, story, ada, bob);
  },

  async anUndoneInsertionMovesTheTypedCellBack(browser) {
    const [ada, bob] = await two(browser, { A1: "first" });
    await insert(bob, "ROW", 0);
    await follow(ada, bob);
    await insert(ada, "ROW", 5);
    await follow(bob, ada);
    await begin(ada, "B10", "typed");
    await dispatch(bob, "REQUEST_UNDO", {});
    await follow(ada, bob);
    await ada.keyboard.press("Enter");
    await shows(bob, "B9", "typed");
    await dispatch(bob, "REQUEST_REDO", {});
    await shows(ada, "B10", "typed");
    await agree(url, story, ada, bob);
  },

  async textTypedInADeletedRowOrSheetCanBeRestored(browser) {
    const [ada, bob] = await two(browser, { A1: "above" });
    await begin(ada, "C10", "half a sentence");
    await remove(bob, "ROW", 9);
    await isListed(ada, "deleted", "half a sentence");
    await addSheet(bob);
    await follow(ada, bob);
    await dispatch(ada, "ACTIVATE_SHEET", { sheetIdFrom: SHEET, sheetIdTo: "other" });
    await begin(ada, "B2", "on a sheet");
    await dispatch(bob, "DELETE_SHEET", { sheetId: "other", sheetName: "Other" });
    await isListed(ada, "deleted", "on a sheet");
    await click(ada, "Put into a new row");
    await shows(bob, "C10", "half a sentence");
    assert.equal(await count(ada), 1);
    await click(ada, "Put into a new sheet");
    await ada.waitForFunction(() => !document.querySelector("[data-conflict]"));
    const cellsOf = ([{ workbook }]) => workbook.model._exportData(false).sheets.map((each) => each.cells);
    assert.deepEqual((await evaluate(ada, cellsOf))[1], { B2: "on a sheet" });
    await agree(url, story, ada, bob);
  },

  async offlineTextInADeletedRowIsPutIntoANewRow(browser) {
    const [ada, bob] = await two(browser, { A11: "eleven", A13: "thirteen" });
    await goOffline(ada);
    await type(ada, "D12", "precious offline text");
    await type(ada, "E12", "and more of it");
    await type(ada, "B3", "not touched");
    await remove(bob, "ROW", 11);
    await isSaved(bob);
    await goOnline(ada);
    await isListed(ada, "deleted", "precious offline text");
    assert.match(await awayText(ada), /While you were away[^]*D12 of Sheet1[^]*Bob Hart/);
    assert.equal(await count(ada), 2);
    await insert(bob, "ROW", 0);
    await follow(ada, bob);
    await ada.reload();
    await isOpen(ada);
    await isListed(ada, "deleted", "precious offline text");
    const crashed = ada.context();
    await ada.close({ runBeforeUnload: false });
    await insert(bob, "ROW", 0);
    await isSaved(bob);
    const again = await windowOf(crashed);
    await open(again, url, story);
    await isListed(again, "deleted", "precious offline text");
    await click(again, "Put into a new row: D12");
    await shows(bob, "D14", "precious offline text");
    await click(again, "Put back: E14");
    await shows(bob, "E14", "and more of it");
    assert.deepEqual([await textOf(bob, "A13"), await textOf(bob, "A15")], ["eleven", "thirteen"]);
    await again.waitForFunction(() => !document.querySelector("[data-conflict]"));
    await again.reload();
    await isOpen(again);
    assert.equal(await again.isVisible("#panel"), false);
    await agree(url, story, again, bob);
  },

  async bothUsersAreShownTheConflictOfTheirOfflineEdits(browser) {
    const [ada, bob] = await two(browser, { A2: "10", A3: "20" });
    await goOffline(ada);
    await goOffline(bob);
    await type(ada, "A2", "100");
    await type(bob, "A2", "200");
    await insert(bob, "ROW", 1);
    await type(bob, "C1", "only Bob");
    await goOnline(ada);
    await isSaved(ada);
    const { version } = await (await send(url, story, "GET", "/")).json();
    await hasVersion(ada, version);
    assert.equal(await evaluate(ada, ([{ workbook }]) => workbook.conflicts.items.length), 0);
    assert.equal(await ada.isVisible("#panel"), false);
    await goOnline(bob);
    await isListed(bob, "overwrote", "100");
    await isListed(ada, "overwritten", "100");
    // The inserted row comes in a separate message, so wait for this message.
    await shows(ada, "A3", "200");
    assert.deepEqual([await count(ada), await count(bob)], [1, 1]);
    assert.match(await awayText(ada), /A3 of Sheet1 Bob Hart/);
    await ada.reload();
    await isOpen(ada);
    await isListed(ada, "overwritten", "100");
    await click(ada, "Put back: A3");
    await shows(bob, "A3", "100");
    await click(bob, "Dismiss all");
    await bob.waitForFunction(() => !document.querySelector("[data-conflict]"));
    await agree(url, story, ada, bob);
  },

  async aReopenedWindowListsItsOverwrittenText(browser) {
    const [ada, bob] = await two(browser, { A2: "10" });
    await goOffline(bob);
    await type(bob, "A2", "typed offline");
    await type(ada, "A2", "typed online");
    await isSaved(ada);
    const profile = ada.context();
    await ada.close();
    await goOnline(bob);
    await isSaved(bob);
    const again = await windowOf(profile);
    await open(again, url, story);
    await isListed(again, "overwritten", "typed online");
    await click(again, "Put back: A2");
    await shows(bob, "A2", "typed online");
    await agree(url, story, again, bob);
  },

  async anUndoRequestedOfflineIsOfferedOnReturn(browser) {
    const [ada, bob] = await two(browser);
    await type(ada, "A1", "first");
    await type(ada, "A2", "second");
    await isSaved(ada);
    await goOffline(ada);
    await ada.keyboard.press("Control+z");
    await ada.keyboard.press("Control+z");
    await goOnline(ada);
    await isListed(ada, "undo", "second");
    await isListed(ada, "undo", "first");
    await click(ada, "Undo: Undo in A1 of Sheet1");
    await shows(bob, "A1", "");
    assert.equal(await textOf(bob, "A2"), "second");
    await isSaved(ada);
    assert.equal(await count(ada), 1);
    await agree(url, story, ada, bob);
  },

  async commandsGivenWhileAnUndoWaitsAreExecutedAfterIt(browser) {
    const [ada, bob] = await two(browser);
    await addSheet(ada);
    for (const [cell, text] of Object.entries({ A1: "one", A2: "two", A3: "three" })) await type(ada, cell, text);
    await isSaved(ada);
    const { passed, open: answer } = gate();
    await ada.route("**/append*", (route) => passed.then(() => route.continue()));
    for (let presses = 0; presses < 3; presses += 1) await ada.keyboard.press("Control+z");
    await type(ada, "B6", "typed meanwhile");
    await dispatch(ada, "ACTIVATE_SHEET", { sheetIdFrom: SHEET, sheetIdTo: "other" });
    assert.equal(await evaluate(ada, ([{ workbook }]) => workbook.model.getters.getActiveSheetId()), "other");
    await insert(bob, "ROW", 3);
    answer();
    for (const [cell, text] of Object.entries({ A1: "", A2: "", A3: "", B7: "typed meanwhile" }))
      await shows(bob, cell, text);
    await agree(url, story, ada, bob);
  },

  async textTypedWhileAnUndoWaitsSurvivesAReload(browser) {
    const [ada, bob] = await two(browser);
    await type(ada, "A1", "one");
    await isSaved(ada);
    await ada.route("**/append*", () => {}); // no answer
    await ada.keyboard.press("Control+z");
    await type(ada, "B6", "typed meanwhile");
    await ada.reload();
    await isOpen(ada);
    await ada.unroute("**/append*");
    await shows(bob, "B6", "typed meanwhile");
    await agree(url, story, ada, bob);
  },

  async textTypedWhileAnUndoWaitsIsListedIfItsRowIsDeleted(browser) {
    const [ada, bob] = await two(browser);
    await type(ada, "A1", "one");
    await isSaved(ada);
    const { passed, open: answer } = gate();
    await ada.route("**/append*", (route) => passed.then(() => route.continue()));
    await ada.keyboard.press("Control+z");
    await type(ada, "B6", "typed meanwhile");
    await remove(bob, "ROW", 5);
    answer();
    await isListed(ada, "deleted", "typed meanwhile");
    await click(ada, "Put into a new row");
    await shows(bob, "B6", "typed meanwhile");
    await agree(url, story, ada, bob);
  },

  async aRefusedChangeIsListedWithItsReason(browser) {
    const [ada, bob] = await two(browser);
    const body = JSON.stringify({ code: "limit-exceeded", message: "a message is too large", value: 9, limit: 8 });
    const refusal = { status: 413, contentType: "application/json", body };
    let refused = 0;
    await ada.route("**/append*", (route) => (refused++ ? route.continue() : route.fulfill(refusal)));
    await type(ada, "B2", "too much");
    await isListed(ada, "refused", "too much");
    assert.match(await awayText(ada), /A message is too large/);
    await shows(ada, "B2", "");
    await click(ada, "Put back: B2");
    await shows(bob, "B2", "too much");
    await agree(url, story, ada, bob);
  },

  async textBeingTypedSurvivesARestore(browser) {
    const [ada, bob] = await two(browser, { A1: "first" });
    await begin(ada, "B2", "in the middle");
    await send(url, story, "POST", "/restore?author=Program", { version: 1 });
    await shows(bob, "B2", "in the middle");
    await agree(url, story, ada, bob);
  },

  async pendingTextFollowsItsCellAcrossARestore(browser) {
    const [ada, bob] = await two(browser, { A1: "first", A5: "fifth" });
    await send(url, story, "POST", "/rows", { row: 1 });
    await shows(ada, "A6", "fifth");
    await goOffline(ada);
    await type(ada, "B6", "beside the fifth");
    await type(ada, "B1", "in the row that came");
    await send(url, story, "POST", "/restore?author=Program", { version: 3 });
    await send(url, story, "POST", "/rows", { row: 1, count: 2 });
    await shows(bob, "A7", "fifth");
    await goOnline(ada);
    await shows(bob, "B7", "beside the fifth");
    await isListed(ada, "deleted", "in the row that came");
    await agree(url, story, ada, bob);
    assert.equal(await textOf(bob, "B1"), "");
  },

  async pendingTextOfAClosedWindowFollowsItsCellAcrossARestore(browser) {
    const [ada, bob] = await two(browser, { A1: "first", A5: "fifth" });
    await send(url, story, "POST", "/rows", { row: 1 });
    await shows(ada, "A6", "fifth");
    await goOffline(ada);
    await type(ada, "B6", "beside the fifth");
    await type(ada, "B1", "in the row that came");
    const profile = ada.context();
    await ada.close();
    await send(url, story, "POST", "/restore?author=Program", { version: 3 });
    await shows(bob, "A5", "fifth");
    const again = await windowOf(profile);
    await open(again, url, story);
    await shows(bob, "B5", "beside the fifth");
    await isListed(again, "deleted", "in the row that came");
    await agree(url, story, again, bob);
    assert.equal(await textOf(bob, "B1"), "");
  },

  async aSortAsksBeforeMovingAHeaderRow(browser) {
    const people = { A1: "Name", A2: "Zoe", A3: "Bob", B1: "Town", B2: "Ulm", B3: "Bonn" };
    const [ada, bob] = await two(browser, { ...people, D4: "Fruit", D5: "Pear", D6: "Fig" });
    const asked = [];
    const answers = [true, true, false];
    ada.removeAllListeners("dialog");
    ada.on("dialog", (dialog) => {
      asked.push(dialog.message());
      return answers.shift() ? dialog.accept() : dialog.dismiss();
    });
    const sort = (left, top, right, bottom) => {
      const zone = { left, right, top, bottom };
      return dispatch(ada, "SORT_CELLS", { sheetId: SHEET, col: left, row: top, zone, sortDirection: "asc" });
    };
    const column = (letter, rows) => Promise.all(rows.map((row) => textOf(ada, `${letter}${row}`)));
    await sort(0, 0, 1, 2);
    assert.deepEqual(await column("A", [1, 2, 3]), ["Name", "Bob", "Zoe"]);
    assert.deepEqual(await column("B", [1, 2, 3]), ["Town", "Bonn", "Ulm"]);
    await sort(3, 3, 3, 5);
    assert.deepEqual(await column("D", [4, 5, 6]), ["Fruit", "Fig", "Pear"]);
    await sort(3, 3, 3, 5);
    assert.deepEqual(await column("D", [4, 5, 6]), ["Fig", "Fruit", "Pear"]);
    await sort(0, 1, 1, 2);
    assert.equal(asked.length, 3);
    assert.match(asked[0], /row 1 \(“Name”, “Town”\)/);
    await agree(url, story, ada, bob);
  },
});
