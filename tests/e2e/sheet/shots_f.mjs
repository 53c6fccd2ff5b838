import { chromium } from "playwright-core";
const [base, out, inn = "demo"] = process.argv.slice(2);
const b = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
const shots = [
  ["light", { viewport: { width: 1280, height: 820 }, colorScheme: "light" }],
  ["dark", { viewport: { width: 1280, height: 820 }, colorScheme: "dark" }],
  ["narrow", { viewport: { width: 390, height: 844 }, colorScheme: "light", deviceScaleFactor: 2 }],
];
for (const [name, o] of shots) {
  const c = await b.newContext(o); const p = await c.newPage();
  p.on("pageerror", (e) => console.error(name, e.stack)); p.on("console", (m) => m.type() === "error" && console.error(name, m.text()));
  await p.goto(`${base}/web/catalogue/?in=${inn}`); await p.waitForSelector("#list a"); await p.waitForTimeout(600);
  await p.screenshot({ path: `${out}/${name}-home.png` });
  await p.fill("#search", "accerciser"); await p.waitForTimeout(900);
  await p.click("#list a >> nth=0"); await p.waitForSelector("pre, .diff"); await p.waitForTimeout(500);
  await p.screenshot({ path: `${out}/${name}-work.png`, fullPage: name === "narrow" });
  await p.evaluate(() => document.querySelector("pre, .diff").scrollIntoView({ block: "center" })); await p.waitForTimeout(200);
  await p.screenshot({ path: `${out}/${name}-diff.png` });
  await c.close();
}
await b.close();
