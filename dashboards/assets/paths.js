// The map of the course: how far the reader is on each path.
/* global document, addEventListener, HTMLElement */

import { write } from "#player/dom.js";
import { loadAll } from "#player/lesson/progress.js";

const words = JSON.parse(document.getElementById("path-words")?.textContent ?? "{}");

function show() {
  const all = loadAll();
  for (const path of document.querySelectorAll(".path")) {
    const stops = [...path.querySelectorAll(".stop")];
    let done = 0;
    for (const stop of stops) {
      const progress = all[stop instanceof HTMLElement ? (stop.dataset.lesson ?? "") : ""];
      stop.classList.toggle("begun", progress !== undefined);
      stop.classList.toggle("done", progress?.done ?? false);
      done += progress?.done ? 1 : 0;
    }
    const said = path.querySelector(".path-progress");
    if (said instanceof HTMLElement) {
      const text = words.progress.replace("{done}", String(done)).replace("{all}", String(stops.length));
      write(said, done > 0 ? ` · ${text}` : "");
    }
  }
}

document.getElementById("forget")?.addEventListener("click", show);
addEventListener("storage", show);
addEventListener("pageshow", show);
show();
