// Stories of commands that a user gives while an undo waits for the server.

import assert from "node:assert/strict";
import * as people from "./people.mjs";

const { agree, choose, evaluate, gate, isSaved, open, send, shows, textOf, type, until, windowOf } = people;
const SHEET = people.SHEET;
const LINES = { sheetId: SHEET, sheetName: "Sheet1", dimension: "ROW" };

const insert = (page, base) =>
  evaluate(
    page,
    ([{ workbook }, lines]) =>
      workbook.model.dispatch("ADD_COLUMNS_ROWS", { ...lines, quantity: 1, position: "before" }),
    { ...LINES, base },
  );

/** Whether the offline cache has so many pending messages. This runs in the page. */
async function isStored([, [name, count]]) {
  const request = indexedDB.open(name);
  const database = await new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
  const all = database.transaction("pending").objectStore("pending").getAll();
  const records = await new Promise((resolve) => (all.onsuccess = () => resolve(all.result)));
  database.close();
  return records.some(({ messages }) => messages?.length === count);
}

/** Undo the newest change, and hold the requests of the page back until `answer` is called. */
async function undo(page) {
  await isSaved(page);
  const { passed, open: answer } = gate();
  await page.route("**/append*", (route) => passed.then(() => route.continue()));
  await page.keyboard.press("Control+z");
  return answer;
}

export const waitingUndo = ({ url, story, two }) => ({
  async aFormulaTypedWhileAnUndoWaitsFollowsItsCells(browser) {
    const [ada, bob] = await two(browser, { A5: "fifth" });
    await type(ada, "A1", "one");
    const answer = await undo(ada);
    await type(ada, "B1", "=A5");
    await insert(bob, 2);
    answer();
    await shows(bob, "B1", "=A6");
    await agree(url, story, ada, bob);
  },

  async textTypedAfterRowsThatWaitIsInTheRowThatItsUserSaw(browser) {
    const [ada, bob] = await two(browser, { A5: "fifth" });
    await type(ada, "A1", "one");
    const answer = await undo(ada);
    await insert(ada, 2);
    await type(ada, "B5", "right of the fifth");
    answer();
    await shows(bob, "B6", "right of the fifth");
    await shows(bob, "A6", "fifth");
    await agree(url, story, ada, bob);
  },

  async aCommandForTheSelectionChangesNoOtherCellsAfterAnUndo(browser) {
    const [ada, bob] = await two(browser, { A1: "one", A4: "four", A5: "five" });
    await type(ada, "C1", "undone");
    const answer = await undo(ada);
    await choose(ada, "A2");
    await ada.keyboard.press("Control+d"); // copies the cell above
    await choose(ada, "A5");
    answer();
    await shows(bob, "C1", "");
    await isSaved(ada);
    assert.equal(await textOf(ada, "A5"), "five");
    await agree(url, story, ada, bob);
  },

  async textTypedBetweenTwoUndosSurvivesARestore(browser) {
    const [ada, bob] = await two(browser, { A1: "first" });
    await type(ada, "A2", "two");
    await type(ada, "A3", "three");
    const answer = await undo(ada);
    await ada.keyboard.press("Control+z");
    await type(ada, "B6", "typed meanwhile");
    await send(url, story, "POST", "/restore?author=Program", { version: 1 });
    answer();
    await shows(bob, "B6", "typed meanwhile");
    await agree(url, story, ada, bob);
  },

  async textTypedWhileAnUndoWaitsSurvivesACrash(browser) {
    const [ada, bob] = await two(browser, { A5: "fifth" });
    await type(ada, "A1", "one");
    await isSaved(ada);
    await ada.route("**/append*", () => {}); // no answer
    await ada.keyboard.press("Control+z");
    await type(ada, "B5", "typed meanwhile");
    await insert(ada, 2);
    await until(ada, isStored, [`stratalog sheet /v1/organisations/local/sheets/${story}`, 2]);
    const profile = ada.context();
    const session = await profile.newCDPSession(ada);
    session.send("Page.crash").catch(() => {});
    await ada.waitForEvent("crash");
    const again = await windowOf(profile);
    await open(again, url, story);
    await shows(bob, "B6", "typed meanwhile");
    await shows(bob, "A6", "fifth");
    await agree(url, story, again, bob);
  },

  async textTypedWhileAnUndoWaitsIsStoredWhenThePageStops(browser) {
    const [ada, bob] = await two(browser);
    await type(ada, "A1", "one");
    await isSaved(ada);
    const { passed, open: answer } = gate();
    const refusal = { status: 403, contentType: "application/json", body: JSON.stringify({ code: "forbidden" }) };
    await ada.route("**/append*", (route) => passed.then(() => route.fulfill(refusal)));
    await ada.keyboard.press("Control+z");
    await type(ada, "B6", "typed meanwhile");
    answer();
    await ada.waitForSelector("#gone:not([hidden])");
    assert.match(await ada.textContent("#gone"), /Not sent yet: 1 change, stored/);
    await ada.unroute("**/append*");
    await ada.reload();
    await shows(bob, "B6", "typed meanwhile");
    await agree(url, story, ada, bob);
  },
});
