// Common to every page other than Replay: light or dark, large or not, kept in the fragment as there.
/* global document, history, location, Element, URLSearchParams */

import { switchLanguage, watchLanguage } from "#player/language.js";
import { effectiveTheme, markPage, storeTheme, storedTheme, watchSystem } from "#player/theme.js";

const themeButton = document.getElementById("theme");
const presentButton = document.getElementById("present");
const place = read();

/** @returns {{theme: "light" | "dark" | null, present: boolean}} */
function read() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const theme = fields.get("theme");
  return {
    theme: theme === "light" || theme === "dark" ? theme : storedTheme(),
    present: fields.get("mode") === "present",
  };
}

function show() {
  markPage(place.theme, place.present);
  presentButton?.setAttribute("aria-pressed", String(place.present));
}

function write() {
  const fields = new URLSearchParams(location.hash.slice(1)); // a page keeps its own place there
  fields.delete("mode");
  fields.delete("theme");
  if (place.present) {
    fields.set("mode", "present");
  }
  if (place.theme) {
    fields.set("theme", place.theme);
  }
  const hash = `#${fields}`;
  history.replaceState(history.state, "", hash === "#" ? location.pathname + location.search : hash);
  show();
}

function turnTheme() {
  place.theme = effectiveTheme(place.theme) === "dark" ? "light" : "dark";
  storeTheme(place.theme);
  write();
}

function turnPresent() {
  place.present = !place.present;
  write();
}

themeButton?.addEventListener("click", turnTheme);
presentButton?.addEventListener("click", turnPresent);
document.addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof Element && event.target.closest("input, select, textarea");
  if (isTyping || event.ctrlKey || event.altKey || event.metaKey) {
    return;
  }
  if (event.key === "d") {
    turnTheme();
  } else if (event.key === "p") {
    turnPresent();
  } else if (event.key === "l") {
    switchLanguage();
  }
});
globalThis.addEventListener("_dashprivate_pushstate", write); // a link that Dash follows has none
globalThis.addEventListener("hashchange", () => {
  Object.assign(place, read());
  show();
});
watchSystem(show);
watchLanguage();
show();
