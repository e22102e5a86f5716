// The theme switch, and the page "Now": its chart, and its live updates.
"use strict";
(() => {
  const root = document.documentElement;
  const redraw = [];

  const button = document.getElementById("theme");
  if (button) {
    const themes = ["system", "light", "dark"];
    const show = () => { button.firstElementChild.textContent = root.dataset.theme || "system"; };
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      const next = themes[(themes.indexOf(root.dataset.theme || "system") + 1) % themes.length];
      if (next === "system") delete root.dataset.theme; else root.dataset.theme = next;
      try { localStorage.setItem("hedgerow-theme", next); } catch { /* Lasts until the next page. */ }
      show();
      redraw.forEach((draw) => draw());
    });
  }

  const box = document.getElementById("chart");
  if (!box) return;
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const actions = ["pass", "challenge", "detain", "refuse"];
  const labels = { pass: "passed", challenge: "challenged", detain: "detained", refuse: "refused" };
  let series = JSON.parse(box.dataset.series);
  let chart = null;
  const data = () => [series.times, ...actions.map((name) => series.actions[name])];
  const size = () => ({ width: Math.max(240, box.clientWidth), height: window.innerWidth < 600 ? 200 : 260 });
  // Times are in UTC, as everywhere in the dashboard.
  const moment = (at) => {
    const text = new Date(at * 1000).toISOString();
    return series.step >= 3600 ? text.slice(5, 10) + " " + text.slice(11, 16) : text.slice(11, 16);
  };
  const draw = () => {
    if (chart) chart.destroy();
    const axis = { stroke: color("--text"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") } };
    chart = new uPlot({
      ...size(),
      series: [{ label: "Time", value: (_, at) => (at === null ? "--" : moment(at)) }, ...actions.map((name) => ({
        label: (box.dataset.observing && name !== "pass" ? "would have been " : "") + labels[name],
        stroke: color("--" + name), width: 2, points: { show: series.times.length < 3 },
        dash: { pass: undefined, challenge: [8, 3], detain: [3, 3], refuse: [12, 2, 2, 2] }[name],
      }))],
      axes: [{ ...axis, values: (_, times) => times.map(moment) }, { ...axis, size: 60 }],
      scales: { y: { range: (_, low, high) => [0, Math.max(4, high)] } },
    }, data(), box);
  };
  redraw.push(draw);
  draw();
  window.addEventListener("resize", () => chart.setSize(size()));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  const live = document.getElementById("live");
  const sentence = document.getElementById("sentence");
  let source = null;
  const start = () => {
    source = new EventSource(box.dataset.live);
    source.addEventListener("message", (event) => {
      const update = JSON.parse(event.data);
      series = update.series;
      chart.setData(data());
      // What somebody uses at the moment, with keyboard, mouse or text selection, stays as it is.
      const selection = window.getSelection();
      const isUsed = live.contains(document.activeElement) || (selection && !selection.isCollapsed);
      if (isUsed) return;
      live.innerHTML = update.html;
      sentence.innerHTML = update.sentence;
    });
  };
  const stop = () => { if (source) source.close(); source = null; };
  const pause = document.getElementById("pause");
  pause.hidden = false;
  pause.addEventListener("click", () => {
    const isPaused = source !== null;
    if (isPaused) stop(); else start();
    pause.setAttribute("aria-pressed", String(isPaused));
  });
  document.addEventListener("visibilitychange", () => {
    if (pause.getAttribute("aria-pressed") === "true") return;
    stop();
    if (!document.hidden) start();
  });
  window.addEventListener("pagehide", stop);
  start();
})();
