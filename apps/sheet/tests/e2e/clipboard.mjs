// Stories of the clipboard: tables from and for other programs, and cut cells.

import assert from "node:assert/strict";
import { untilResolved } from "../../../../tests/e2e/telling.mjs";
import * as people from "./people.mjs";

const { choose, evaluate, isSaved, make, open, person, shows, stateOf, type, until, write } = people;

/** Put a text on the clipboard, as another program does. */
const putText = (page, text) => page.evaluate((words) => navigator.clipboard.writeText(words), text);

const select = (page, name) =>
  evaluate(page, ([{ workbook }, range]) => {
    const zone = o_spreadsheet.helpers.toZone(range);
    workbook.model.selection.selectZone({ cell: { col: zone.left, row: zone.top }, zone });
  }, name);

/**
 * Copy the selected cells, and return the clipboard's text and the texts of the cells in its HTML. Each try reads the
 * whole clipboard, because the engine may replace its contents between two reads.
 */
async function copied(page) {
  await putText(page, "");
  await page.keyboard.press("Control+c");
  return untilResolved(page, async () => {
    const [item] = await navigator.clipboard.read();
    const [text, html] = await Promise.all(
      ["text/plain", "text/html"].map(async (kind) => (await item.getType(kind)).text()),
    ).catch(() => []);
    if (html === undefined) return null;
    const { body } = new DOMParser().parseFromString(html, "text/html");
    const cells = [...body.querySelectorAll("td")];
    const shown = (cells.length ? cells : [body.firstElementChild]).map((cell) => {
      for (const line of cell.querySelectorAll("br")) line.replaceWith("\n");
      return cell.textContent;
    });
    return { text, shown };
  });
}

const cellsOf = async (page) => JSON.parse(await stateOf(page))[0].cells;
const isCut = (page, wanted) =>
  until(page, ([{ workbook }, is]) => workbook.model.getters.isCutOperation() === is, wanted);

async function cut(page, cell) {
  await choose(page, cell);
  await page.keyboard.press("Control+x");
  await isCut(page, true);
}

export const clipboard = ({ url, story, two: twoWithout }) => {
  const permissions = ["clipboard-read", "clipboard-write"];
  const two = (browser, contents) => twoWithout(browser, contents, { permissions });
  return {
    async aTablePastedFromAnotherProgramFillsOnlyItsOwnCells(browser) {
      await make(url, story, { A3: "below", B3: "too" });
      const page = await person(browser, "Ada Lace", { permissions });
      await open(page, url, story);
      await choose(page, "A1");
      // Spreadsheet programs put a cell of several lines into quotation marks, and end the last row with a line break.
      await putText(page, '"two\r\nlines"\t5"\r\n"""quoted"" tab\t"\t"plain"\r\n');
      await page.keyboard.press("Control+v");
      await shows(page, "B2", '"plain"');
      const table = { A1: "two\nlines", B1: '5"', A2: '"quoted" tab\t', B2: '"plain"' };
      assert.deepEqual(await cellsOf(page), { ...table, A3: "below", B3: "too" });
    },

    async copiedCellsHaveTheirTextsInOtherPrograms(browser) {
      await make(url, story);
      const texts = { A1: "two\nlines", B1: "a<b>c & d", A2: "a\ttab", B2: '"quoted"' };
      for (const [cell, text] of Object.entries(texts)) await write(url, story, cell, text);
      const page = await person(browser, "Ada Lace", { permissions });
      await open(page, url, story);
      await select(page, "A1:B2");
      const table = await copied(page);
      assert.equal(table.text, '"two\nlines"\ta<b>c & d\n"a\ttab"\t"""quoted"""');
      assert.deepEqual(table.shown, Object.values(texts));
      await select(page, "B1");
      assert.deepEqual(await copied(page), { text: texts.B1, shown: [texts.B1] });
      await choose(page, "D1");
      await putText(page, table.text);
      await page.keyboard.press("Control+v");
      await shows(page, "E2", '"quoted"');
      const pasted = { D1: texts.A1, E1: texts.B1, D2: texts.A2, E2: texts.B2 };
      assert.deepEqual(await cellsOf(page), { ...texts, ...pasted });
    },

    async cutCellsThatAnotherUserChangesAreNotPasted(browser) {
      const [ada, bob] = await two(browser, { A5: "cut", B5: "right" });
      await cut(ada, "A5");
      await type(bob, "B5", "another cell");
      await shows(ada, "B5", "another cell");
      await isCut(ada, true);
      await type(bob, "A5", "new");
      await people.isNotified(ada, "cells that you cut have changed");
      await choose(ada, "C1");
      await ada.keyboard.press("Control+v");
      await type(ada, "D1", "later");
      await isSaved(ada);
      assert.deepEqual(await cellsOf(ada), { A5: "new", B5: "another cell", D1: "later" });
    },

    async aPasteAfterAnotherUsersUndoClearsNoOtherCell(browser) {
      const [ada, bob] = await two(browser, { A4: "first", A5: "second" });
      await evaluate(bob, ([{ workbook }]) => {
        const lines = { sheetId: "sheet1", sheetName: "Sheet1", dimension: "ROW", base: 0, quantity: 1 };
        workbook.model.dispatch("ADD_COLUMNS_ROWS", { ...lines, position: "before" });
      });
      await shows(ada, "A5", "first");
      await cut(ada, "A5");
      await bob.keyboard.press("Control+z");
      await people.isNotified(ada, "cells that you cut have changed");
      await choose(ada, "C1");
      await ada.keyboard.press("Control+v");
      await type(ada, "D1", "later");
      await isSaved(ada);
      assert.deepEqual(await cellsOf(ada), { A4: "first", A5: "second", D1: "later" });
    },

    async cutCellsAreMovedByAPaste(browser) {
      const [ada, bob] = await two(browser, { A1: "1", A2: "=A1", B1: "=A1" });
      await cut(ada, "A1");
      await choose(ada, "C3");
      await ada.keyboard.press("Control+v");
      await shows(bob, "C3", "1");
      assert.deepEqual(await cellsOf(bob), { C3: "1", A2: "=C3", B1: "=C3" });
    },
  };
};
