// The walk of browsers.py by puppeteer-extra with its stealth plug-in. Its settings are one argument, in JSON.
const { createRequire } = require("module");

const given = JSON.parse(process.argv[2]);
const load = createRequire(given.packages);
const { addExtra } = load("puppeteer-extra");
const puppeteer = addExtra(load("puppeteer-core"));
puppeteer.use(load("puppeteer-extra-plugin-stealth")());

const rest = (seconds) => new Promise((done) => { setTimeout(done, seconds * 1000); });
const plain = (href) => href.replace(/[?&]~=[\w.-]+/, "").replace(/#.*/, "");

(async () => {
  const browser = await puppeteer.launch({
    executablePath: given.chromium, headless: "new", args: given.arguments, userDataDir: given.profile,
  });
  const [page] = await browser.pages();
  page.setDefaultTimeout(20000);
  const end = Date.now() + given.seconds * 1000;
  const linksOf = async () => {
    const until = Math.min(end, Date.now() + given.solving * 1000);
    while (Date.now() < until) {
      try {
        if (await page.evaluate("document.readyState !== 'loading'") && !await page.evaluate(given.asked)) {
          return await page.evaluate(given.links);
        }
      } catch { /* Between two pages. */ }
      await rest(0.1);
    }
    return [];
  };
  const frontier = [`${given.url}/`];
  const seen = new Set(frontier);
  let asked = 0, refused = 0, number = -1;
  while (asked < given.pages && refused < given.refusals && Date.now() < end && (frontier.length || number >= 0)) {
    await rest(given.pause);
    asked += 1;
    try {
      if (number >= 0) {
        const link = await page.evaluateHandle((n) => document.links[n], number);
        await Promise.all([page.waitForNavigation(), link.click()]);
      } else {
        await page.goto(given.order === "depth" ? frontier.pop() : frontier.shift());
      }
    } catch { /* It shows in the pages that the site has given. */ }
    const links = await linksOf();
    refused = links.length ? 0 : refused + 1;
    const fresh = links.filter(([href]) => !seen.has(plain(href)));
    number = -1;
    if (given.order !== "click") {
      for (const [href] of fresh) {
        if (!seen.has(plain(href))) frontier.push(href);
        seen.add(plain(href));
      }
    } else if (fresh.length) {
      const [href, chosen] = fresh[(asked * 7919) % fresh.length];
      seen.add(plain(href));
      number = chosen;
    } else if (!frontier.length) {
      frontier.push(`${given.url}/`);
    }
  }
  await browser.close();
  console.log(asked);
})().catch((error) => { console.error(error); process.exit(1); });
