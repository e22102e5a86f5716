// Clicks through the pages at SITE by Puppeteer: HOW is "click", "steps" or "ghost". See pointer_drivers.py.
const puppeteer = require("puppeteer-extra");
puppeteer.use(require("puppeteer-extra-plugin-stealth")());
const { createCursor } = require("ghost-cursor");
const { HOW, SITE, CLICKS, STEPS } = process.env;
const pause = (time) => new Promise((resolve) => { setTimeout(resolve, time); });
(async () => {
  const browser = await puppeteer.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
  });
  const page = await browser.newPage();
  await page.setViewport({ width: 1000, height: 700 });
  await page.goto(SITE);
  const cursor = createCursor(page);
  for (let click = 0; click < Number(CLICKS); click += 1) {
    const links = await page.$$("a");
    const link = links[Math.floor(Math.random() * links.length)];
    const loaded = page.waitForNavigation();
    if (HOW === "ghost") await cursor.click(link);
    else if (HOW === "steps") {
      const { x, y } = await link.clickablePoint();
      await page.mouse.move(x, y, { steps: Number(STEPS) });
      await page.mouse.down();
      await page.mouse.up();
    } else await link.click();
    await loaded;
    await pause(120);
  }
  await page.goto("about:blank");
  await pause(300);
  await browser.close();
})();
