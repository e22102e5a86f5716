
"use strict";
// Tables sort by their headings and are filtered by words and by choices. Without script they are plain tables.
const PRINTED = 100;
const SMALL = 8;
const order = new Intl.Collator("en", { numeric: true });

function element(name, words, parent) {
  const made = document.createElement(name);
  made.textContent = words;
  parent.append(made);
  return made;
}

function labelled(words, field, parent) {
  const label = element("label", words, parent);
  label.append(field);
  return field;
}

function furnish(table) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    return heads[column].dataset.kind === "number" ? Number(cell.dataset.key ?? cell.textContent) : cell.dataset.key ?? cell.textContent;
  };
  let shown = () => {};
  heads.forEach((head, column) => {
    const words = head.textContent;
    head.textContent = "";
    const button = element("button", words, head);
    button.type = "button";
    button.addEventListener("click", () => {
      const first = head.dataset.kind === "number" ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const way = head.getAttribute("aria-sort") === first ? other : first;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", way);
      const sign = way === "ascending" ? 1 : -1;
      const keyed = rows.map((row, place) => [key(row, column), place, row]);
      keyed.sort((a, b) => sign * (typeof a[0] === "number" ? a[0] - b[0] : order.compare(a[0], b[0])) || a[1] - b[1]);
      body.append(...keyed.map((one) => one[2]));
      shown();
    });
  });
  if (rows.length < SMALL) return;
  const tools = document.createElement("div");
  tools.className = "tools";
  table.closest(".scroll").before(tools);
  const search = document.createElement("input");
  search.type = "search";
  labelled("Only rows with", search, tools);
  const choices = heads.map((head, column) => [head, column]).filter(([head]) => head.dataset.kind === "choice").map(([head, column]) => {
    const select = document.createElement("select");
    element("option", "all", select).value = "";
    [...new Set(rows.map((row) => row.cells[column].textContent))].sort(order.compare).forEach((word) => { element("option", word, select).value = word; });
    labelled(`Only this ${head.textContent}`, select, tools);
    return [select, column];
  });
  const told = element("p", "", tools);
  told.setAttribute("role", "status");
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  shown = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of body.rows) {
      const fits = words.every((word) => texts.get(row).includes(word))
        && choices.every(([select, column]) => !select.value || row.cells[column].textContent === select.value);
      row.hidden = !fits;
      count += fits;
      row.classList.toggle("beyond", count > PRINTED);
    }
    told.textContent = `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
  };
  search.addEventListener("input", shown);
  choices.forEach(([select]) => select.addEventListener("change", shown));
  shown();
}

// The chart of traffic is read bar by bar, by pointer or arrow keys, from the table below it.
function read(plot) {
  const table = document.getElementById(plot.dataset.values);
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const values = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
  const drawing = plot.querySelector("svg");
  const cursor = plot.querySelector(".cursor");
  const told = document.createElement("p");
  told.className = "reading";
  told.setAttribute("role", "status");
  told.textContent = "Point at a bar, or use the arrow keys, to read its numbers.";
  plot.after(told);
  const left = 52, width = 892;
  let at = -1;
  const show = (place) => {
    at = Math.min(Math.max(place, 0), values.length - 1);
    cursor.setAttribute("transform", `translate(${left + (at + 0.45) * width / values.length} 0)`);
    cursor.setAttribute("visibility", "visible");
    told.textContent = values[at].map((value, column) => column ? `${names[column]} ${value}` : `${value} UTC`).join("; ");
  };
  plot.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    show(Math.floor(((event.clientX - box.left) / box.width * 960 - left) / width * values.length));
  });
  plot.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: values.length - 1 };
    if (event.key in steps && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      show(steps[event.key]);
    }
  });
}

document.querySelectorAll("[data-values]").forEach(read);
document.querySelectorAll("table.sorted").forEach(furnish);

// A page that hedgerow report --follow keeps up to date loads itself again, unless somebody reads a part of it.
const seconds = Number(document.documentElement.dataset.refresh ?? 0);
if (seconds > 0) {
  setInterval(() => {
    const busy = document.querySelector("details[open]") || document.activeElement?.matches("input, select, [tabindex]");
    if (!document.hidden && !busy && !String(getSelection())) location.reload();
  }, seconds * 1000);
}
