// The list of runs: asked for again every few seconds, and closed as a menu closes.
/* global document, fetch, location, setInterval, DOMParser, Node, URLSearchParams */

const LOOK_EVERY_MS = 3000;
const menu = document.getElementById("runs-menu");
let shown = "";

/** A new run appears; the menu stays open and where it was scrolled. */
async function look() {
  const query = new URLSearchParams({ page: location.pathname, query: location.search });
  const text = await fetch(`/runs?${query}`).then((answer) => (answer.ok ? answer.text() : shown), () => shown);
  if (text === shown) {
    return;
  }
  shown = text;
  const now = new DOMParser().parseFromString(text, "text/html");
  for (const part of ["#runs-title", "#runs-list"]) {
    menu.querySelector(part).replaceChildren(...now.querySelector(part).childNodes);
  }
}

function close() {
  menu.open = false;
}

document.addEventListener("pointerdown", (event) => {
  if (event.target instanceof Node && !menu.contains(event.target)) {
    close();
  }
});

document.addEventListener(
  "keydown",
  (event) => {
    if (event.key === "Escape" && menu.open) {
      close();
      menu.querySelector("summary").focus();
      event.stopPropagation();
    }
  },
  { capture: true },
);
setInterval(look, LOOK_EVERY_MS);
