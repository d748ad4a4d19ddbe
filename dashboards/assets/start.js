// Starts Dash when the player is shown, so that nothing of it delays the first view; and closes
// the list of runs as a menu closes.
/* global document, requestAnimationFrame, setTimeout, MutationObserver, Node */

/** The player may fail to load: the list of runs is then what helps. */
const LONGEST_MS = 3000;
const scripts = document.getElementById("dash-scripts");
const status = document.getElementById("status");
let started = false;

/** The player takes its status away when it shows a trace, and gives it a title when it cannot. */
function isSettled() {
  return !status || status.hidden || status.querySelector("h1") !== null;
}

function startAfterFrame() {
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(start)));
}

function start() {
  if (started || !scripts) {
    return;
  }
  started = true;
  /** @type {HTMLScriptElement | undefined} */
  let last;
  for (const data of scripts.querySelectorAll("script")) {
    const script = document.createElement("script");
    for (const { name, value } of data.attributes) {
      if (name !== "type") {
        script.setAttribute(name, value);
      }
    }
    script.async = false;
    script.text = data.text;
    if (script.src || !last) {
      document.body.append(script);
      last = script;
    } else {
      // What has no address would not wait for those that have one.
      last.addEventListener("load", () => document.body.append(script));
    }
  }
}

if (isSettled()) {
  startAfterFrame();
} else {
  new MutationObserver((_, observer) => {
    if (isSettled()) {
      observer.disconnect();
      startAfterFrame();
    }
  }).observe(status, { attributes: true, childList: true });
}
setTimeout(start, LONGEST_MS);

function openMenu() {
  return document.querySelector("#runs-menu[open]");
}

document.addEventListener("pointerdown", (event) => {
  const menu = openMenu();
  if (menu && event.target instanceof Node && !menu.contains(event.target)) {
    menu.open = false;
  }
});

document.addEventListener(
  "keydown",
  (event) => {
    const menu = openMenu();
    if (event.key === "Escape" && menu) {
      menu.open = false;
      menu.querySelector("summary")?.focus();
      event.stopPropagation();
    }
  },
  { capture: true },
);
