// Measurements for bench/sheet_browser.py, printed as JSON. `node measure.mjs URL CHROMIUM EDITS SMALL LARGE`.

import { chromium } from "playwright-core";
import { WITH_WORKER, evaluate, open, person, shows } from "./people.mjs";

const [url, executablePath, edits, small, large] = process.argv.slice(2);
const LOADS = 3;
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic"] });

async function seen() {
  const [ada, bob] = [await person(browser, "Ada Lace", WITH_WORKER), await person(browser, "Bob Hart", WITH_WORKER)];
  await Promise.all([ada, bob].map((page) => open(page, url, small)));
  await evaluate(bob, ([{ workbook }]) => {
    globalThis.seen = [];
    const now = () => performance.timeOrigin + performance.now();
    const isShown = (text) => workbook.model.getters.getCellText({ sheetId: "sheet1", col: 3, row: 5 }) === text;
    workbook.model.on("update", globalThis.seen, () => {
      const text = String(globalThis.seen.length);
      if (isShown(text)) requestAnimationFrame(() => setTimeout(() => globalThis.painted.push(now())));
      if (isShown(text)) globalThis.seen.push(now());
    });
    globalThis.painted = [];
  });
  const [known, painted] = [[], []];
  for (let turn = 0; turn < Number(edits); turn++) {
    const task = ([{ workbook }, content]) => {
      const now = performance.timeOrigin + performance.now();
      workbook.model.dispatch("UPDATE_CELL", { sheetId: "sheet1", col: 3, row: 5, content });
      return now;
    };
    const set = await evaluate(ada, task, String(turn));
    await shows(bob, "D6", String(turn));
    await bob.waitForFunction((count) => globalThis.painted.length > count, turn);
    known.push((await bob.evaluate((index) => globalThis.seen[index], turn)) - set);
    painted.push((await bob.evaluate((index) => globalThis.painted[index], turn)) - set);
  }
  return { known, painted };
}

async function loads() {
  const page = await person(browser, "Ada Lace", WITH_WORKER);
  const times = [];
  for (let turn = 0; turn < LOADS; turn++) {
    const begun = Date.now();
    await page.goto(`${url}/web/sheet/edit.html?in=local&sheet=${large}`);
    await page.waitForFunction(() => document.body.dataset.ready);
    const total = Date.now() - begun;
    const engine = await page.evaluate(async (path) => {
      const { data } = await (await fetch(path)).json();
      const start = performance.now();
      new o_spreadsheet.Model(data, { mode: "readonly" });
      return performance.now() - start;
    }, `/v1/organisations/local/sheets/${large}/load`);
    times.push({ total, engine });
  }
  return times;
}

console.log(JSON.stringify({ ...(await seen()), loads: await loads() }));
await browser.close();
