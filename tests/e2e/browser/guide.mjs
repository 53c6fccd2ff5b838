// The steps of docs/guides/collaborative-app.md: `node guide.mjs URL CHROMIUM`. A line on standard input means that the
// kitchen program has added coffee.

import assert from "node:assert/strict";
import { once } from "node:events";
import { chromium } from "playwright-core";
import { launching } from "../telling.mjs";

const [url, executablePath] = process.argv.slice(2);
const browser = await chromium.launch(launching(executablePath));

async function windowOf(who) {
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(30_000);
  await page.goto(`${url}/web/shop/#${who}`);
  return page;
}

const shows = (page, text) => page.waitForFunction((wanted) => document.body.innerText.includes(wanted), text);
// The coffee may come before the milk in the list.
const milkOf = (page) => page.locator("li", { hasText: "milk" }).locator("input");
const says = (page, text) => page.waitForFunction((wanted) => document.querySelector("output").value === wanted, text);

try {
  const [ada, bob] = [await windowOf("Ada"), await windowOf("Bob")];
  await ada.fill("[name=text]", "milk");
  await ada.keyboard.press("Enter");
  await shows(bob, "milk");
  await bob.uncheck("[name=online]");
  await milkOf(bob).click();
  await shows(bob, "milk (Bob)");
  await says(bob, "1 waiting");
  await milkOf(ada).click();
  await shows(ada, "milk (Ada)");
  await says(ada, "");
  await bob.check("[name=online]");
  await shows(bob, "milk (Ada)");
  await says(bob, "not done: Ada has the milk already");
  await once(process.stdin, "data");
  await Promise.all([shows(ada, "coffee"), shows(bob, "coffee")]);
  assert.equal(await ada.locator("li").count(), 2);
} finally {
  await browser.close();
}
process.exit();
