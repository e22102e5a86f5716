// Lets a worker calculate, says in words how it goes, and sends the answer as soon as it is there.
// What is said comes from the page, in its language.
document.getElementById("needs")?.remove();
const form = document.getElementById("work");
if (form) {
  const said = JSON.parse(form.dataset.words);
  const status = document.getElementById("status");
  const say = (text) => { status.textContent = text; };
  let release = () => {};
  const fail = () => {
    release();
    say(said.failed);
    const other = document.querySelector("#others button");
    if (other) other.focus();
  };
  const start = () => {
    say(said.verifying);
    let worker;
    try {
      worker = new Worker(new URL("./solve.js", import.meta.url));
    } catch {
      fail();
      return;
    }
    const timer = setTimeout(() => { worker.terminate(); fail(); }, Number(form.dataset.seconds) * 1000);
    worker.onerror = fail;
    worker.onmessage = ({ data: [number, isFound] }) => {
      if (!isFound) return;
      clearTimeout(timer);
      say(said.verified);
      form.elements.answer.value = number;
      HTMLFormElement.prototype.submit.call(form);
    };
    worker.postMessage(JSON.parse(form.dataset.question));
  };
  // Of several tabs that were opened at once one calculates. The others wait, and load their pages again when it has left.
  const startInTurn = () => navigator.locks.request("hedgerow", { ifAvailable: true }, (lock) => {
    if (!lock) {
      navigator.locks.request("hedgerow", () => location.reload());
      return undefined;
    }
    start();
    return new Promise((resolve) => { release = resolve; });
  });
  const box = document.createElement("input");
  box.type = "checkbox";
  const label = document.createElement("label");
  label.append(box, said.label);
  document.getElementById("box").append(label);
  const begin = () => {
    box.checked = box.disabled = true;
    if (form.dataset.reload && navigator.locks) startInTurn();
    else start();
  };
  box.addEventListener("change", begin);
  if (form.dataset.auto) begin();
}

const continuing = document.getElementById("continue");
if (continuing) HTMLFormElement.prototype.submit.call(continuing);

const external = document.getElementById("external");
if (external) {
  const script = document.createElement("script");
  script.src = external.dataset.script;
  script.async = true;
  script.onerror = () => {
    document.getElementById("status").textContent = external.dataset.failed;
    const other = document.querySelector("#others button");
    if (other) other.focus();
  };
  globalThis.hedgerowAnswered = () => HTMLFormElement.prototype.submit.call(external);
  document.head.append(script);
}
