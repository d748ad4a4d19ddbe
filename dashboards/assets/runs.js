// The list of runs: polled every few seconds, and closed like a menu.
/* global document, fetch, location, setTimeout, DOMParser, HTMLElement, Node, URLSearchParams */

const LOOK_EVERY_MS = 3000;
const menu = document.getElementById("runs-menu");

/** A new run appears; the menu stays open, where it was scrolled, and with the focus where it was. */
async function look() {
  const query = new URLSearchParams({ page: location.pathname, query: location.search });
  const text = await fetch(`/runs?${query}`).then((answer) => (answer.ok ? answer.text() : ""), () => "");
  const now = new DOMParser().parseFromString(text, "text/html");
  for (const part of ["#runs-title", "#runs-list"]) {
    const [here, there] = [menu.querySelector(part), now.querySelector(part)];
    if (there && here.innerHTML !== there.innerHTML) {
      replace(here, there);
    }
  }
}

/** The current contents, unless they are the same. */
function replace(/** @type {Element} */ here, /** @type {Element} */ there) {
  const focused = document.activeElement;
  const address = here.contains(focused) ? focused.getAttribute("href") : null;
  here.replaceChildren(...there.childNodes);
  const again = [...here.querySelectorAll("a")].find((link) => link.getAttribute("href") === address);
  if (address !== null && again instanceof HTMLElement) {
    again.focus({ preventScroll: true });
  }
}

/** One question after the other, or an older answer could come after a newer one. */
async function keepLooking() {
  await look();
  setTimeout(keepLooking, LOOK_EVERY_MS);
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
setTimeout(keepLooking, LOOK_EVERY_MS);
