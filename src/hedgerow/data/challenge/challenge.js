// Puts the widget into the page, says in words how it goes, and sends the answer as soon as it is there.
// What is said comes from the page, in its language.
import "./altcha/altcha.min.js";

document.getElementById("needs")?.remove();
const form = document.getElementById("work");
if (form) {
  const said = JSON.parse(form.dataset.words);
  const status = document.getElementById("status");
  const say = (text) => { status.textContent = text; };
  const submit = () => HTMLFormElement.prototype.submit.call(form);
  const language = document.documentElement.lang;
  globalThis.$altcha.algorithms.set(
    "PBKDF2/SHA-256",
    () => new Worker(new URL("./altcha/pbkdf2.js", import.meta.url)),
  );
  globalThis.$altcha.i18n.set(language, { ...globalThis.$altcha.i18n.get("en"), ...said });
  const widget = document.createElement("altcha-widget");
  widget.setAttribute("language", language);
  widget.setAttribute("name", "answer");
  widget.setAttribute("challenge", form.dataset.question);
  widget.setAttribute("auto", form.dataset.auto);
  widget.setAttribute("configuration", JSON.stringify({
    hideFooter: true,
    hideLogo: true,
    humanInteractionSignature: false,
    minDuration: 0,
    type: "checkbox",
    // Not all cores: the visitor has other windows, too.
    workers: Math.max(1, Math.min(4, navigator.hardwareConcurrency || 2)),
    timeout: Number(form.dataset.seconds) * 1000,
  }));
  const fail = () => {
    say(said.failed);
    const other = document.querySelector("#others button");
    if (other) other.focus();
  };
  widget.addEventListener("statechange", (event) => {
    const state = event.detail.state;
    if (state === "verifying") say(said.verifying);
    else if (state === "verified") {
      say(said.verified);
      // The widget writes its answer into the form first.
      setTimeout(submit, 0);
    } else if (state === "error" || state === "expired") fail();
  });
  if (globalThis.isSecureContext && globalThis.crypto && crypto.subtle) {
    document.getElementById("widget").append(widget);
  } else {
    // Browsers calculate only on pages that came by https.
    fail();
  }
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
