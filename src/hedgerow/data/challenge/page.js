// Obtains a clearance while the page is read, so that the visitor need not be challenged later. Where the site asks for
// it, counts what is done on the page and sends the sums when the page is left: docs/browser-signs.md lists all of them.
(() => {
  const files = document.currentScript.src.replace(/[^/]*$/, "");
  const { urgent, signs } = document.currentScript.dataset;
  const isUrgent = urgent !== undefined;
  const name = "hedgerow";
  const send = (where, fields) => fetch(new URL(`../${where}`, files), {
    method: "POST", body: new URLSearchParams(fields), credentials: "same-origin", keepalive: true, priority: "low",
  });
  // The next page of this tab goes on with a calculation that this page cannot finish. The storage may be forbidden.
  const load = () => {
    try {
      const task = JSON.parse(sessionStorage.getItem(name));
      return task && task.until > Date.now() ? task : null;
    } catch {
      return null;
    }
  };
  const save = (task) => {
    try {
      if (task) sessionStorage.setItem(name, JSON.stringify(task));
      else sessionStorage.removeItem(name);
    } catch { /* Then the next page begins again. */ }
  };
  // A site may demand that scripts name the addresses of workers in this way.
  const trust = (address) => {
    try {
      return trustedTypes.createPolicy(name, { createScriptURL: (it) => it }).createScriptURL(address);
    } catch {
      return address;
    }
  };
  const solve = async () => {
    let task = load();
    if (!task) {
      const reply = await send("task", {});
      if (reply.status !== 200) return;
      task = { ...await reply.json(), until: Date.now() + 300000 };
      save(task);
    }
    const worker = new Worker(trust(`${files}solve.js`));
    await new Promise((resolve) => {
      worker.onerror = resolve;
      worker.onmessage = ({ data: [number, isFound] }) => {
        task.question.from = number;
        save(isFound ? null : task);
        if (isFound) send("clear", { ticket: task.ticket, challenge: task.challenge, answer: number }).then(resolve, resolve);
      };
      worker.postMessage(task.question);
    });
    worker.terminate();
  };
  const start = () => {
    // A page that nobody looks at can wait.
    if (document.hidden && !isUrgent) document.addEventListener("visibilitychange", start, { once: true });
    // Of several tabs one calculates, where browsers have locks.
    else if (navigator.locks) navigator.locks.request(name, { ifAvailable: true }, (lock) => lock && solve()).catch(() => {});
    else solve().catch(() => {});
  };
  const collect = () => {
    const sums = {};
    const add = (what, value = 1) => { sums[what] = (sums[what] || 0) + value; };
    const browser = () => {
      const agent = navigator.userAgent;
      const has = (feature) => feature in window;
      const hints = navigator.userAgentData?.brands || [];
      const driver = /^\$?cdc_|^__(pw|playwright|puppeteer|nightmare|webdriver|selenium|fxdriver)|^_?(callP|p)hantom|^domAutomation/;
      add("webdriver", Number(navigator.webdriver === true));
      add("drivers", [...Object.getOwnPropertyNames(window), ...Object.keys(document)].filter((it) => driver.test(it)).length
        + hints.filter(({ brand }) => /Headless/.test(brand)).length);
      add("engine", has("webkitRequestFileSystem") ? 1 : has("mozInnerScreenX") ? 2 : has("GestureEvent") ? 3 : 0);
      add("system", /^Win/.test(navigator.platform) ? 1 : /^(Mac|iP)/.test(navigator.platform) ? 2
        : /^Linux/.test(navigator.platform) ? 3 : 0);
      add("version", Number(/(?:Chrome|Firefox|Version)\/(\d+)/.exec(agent)?.[1] || 0));
    };
    const elements = () => {
      // What every browser that shows the page loads at once from this site.
      for (const it of document.querySelectorAll('link[rel~="stylesheet"][href]:not([disabled]), img[src]:not([loading="lazy"])')) {
        const address = new URL(it.href || it.src, document.baseURI);
        if (address.origin === location.origin) {
          add("files");
          if (it.naturalWidth || performance.getEntriesByName(address.href).some((entry) => entry.decodedBodySize)) add("loaded");
          else {
            try {
              if (it.sheet?.cssRules.length) add("loaded");
            } catch { /* It came from elsewhere after all. */ }
          }
        }
      }
    };
    let last, step;
    const move = ({ clientX: x, clientY: y, timeStamp: at }) => {
      const elapsed = last ? Math.max(1, at - last.at) : Infinity;
      add("moves");
      if (elapsed > 500) {
        add("strokes");
        step = null;
      } else {
        const [dx, dy] = [x - last.x, y - last.y];
        const length = Math.hypot(dx, dy);
        const speed = length / elapsed;
        add("speed", speed * 100);
        if (step) {
          if (Math.abs(dx - step.dx) <= 1 && Math.abs(dy - step.dy) <= 1) add("same");
          add("change", Math.abs(speed - step.speed) * 100);
          if (length >= 2 && step.length >= 2) {
            add("turns");
            add("turn", Math.abs(Math.atan2(dx * step.dy - dy * step.dx, dx * step.dx + dy * step.dy)) * 100);
          }
        }
        step = { dx, dy, length, speed };
      }
      last = { x, y, at };
    };
    let inputs = 0;
    const on = (type, handle) => addEventListener(type, (event) => {
      if (event.isTrusted) {
        inputs += 1;
        handle(event);
      }
    }, { capture: true, passive: true });
    on("pointermove", (event) => (event.pointerType === "mouse" ? move(event) : add("touches")));
    on("pointerdown", (event) => add(event.pointerType === "mouse" ? "presses" : "touches"));
    on("keydown", () => add("keys"));
    on("click", () => add("clicks"));
    on("wheel", () => add("wheels"));
    // What is sent while a page is left gets lost in some browsers. Then the next page of this tab sends it once more.
    const kept = `${name}-signs`;
    const keep = (text) => {
      try {
        sessionStorage.setItem(kept, text);
      } catch { /* Then it is lost. */ }
    };
    let arrives = false;
    const resend = () => {
      let before = "";
      try {
        before = sessionStorage.getItem(kept);
      } catch { /* The same. */ }
      arrives = before === "arrived";
      if (!before || arrives) return;
      keep("");
      send("signs", before).then(({ status }) => status === 204 && keep("arrived"), () => {});
    };
    // The first look at the storage takes a while, so it waits until the page is shown.
    const later = () => setTimeout(resend);
    if (document.readyState === "complete") later();
    else addEventListener("load", later);
    const now = () => performance.now();
    const page = Math.ceil(Math.random() * 1e9);
    let shown = document.hidden ? null : now();
    let reports = 0;
    const leave = () => {
      if (shown !== null) add("visible", now() - shown);
      shown = null;
      // A page that is looked at again is not another page. What has happened on it meanwhile is added.
      if (reports && !inputs) return;
      if (!reports) {
        browser();
        if (document.readyState === "complete") elements();
      }
      add("report", reports += 1);
      add("page", page);
      for (const what of Object.keys(sums)) sums[what] = Math.round(sums[what]);
      const report = new URLSearchParams(sums);
      navigator.sendBeacon(new URL("../signs", files), report);
      if (!arrives) keep(report);
      for (const what of Object.keys(sums)) delete sums[what];
      last = step = null;
      inputs = 0;
    };
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) leave();
      else shown = now();
    });
    addEventListener("pagehide", leave);
  };
  if (signs !== undefined && top === self) collect();
  // Nothing is paid for in advance where every byte counts.
  if (signs !== "only" && (isUrgent || !navigator.connection?.saveData)) {
    // The page is complete by then, and idle. What follows runs beside it: one small request, and a worker.
    const idle = () => (window.requestIdleCallback ? requestIdleCallback(start, { timeout: 1000 }) : setTimeout(start, 100));
    if (isUrgent) start();
    else if (document.readyState === "complete") idle();
    else addEventListener("load", idle);
  }
})();
