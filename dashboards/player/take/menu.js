// The menu "Export": a picture of this moment, or a film of a stretch of beats, as a file. All of
// it is made here: nothing is sent anywhere.

import { spokenBeat } from "#player/beats.js";
import { openDialog } from "#player/dialogs.js";
import { find, write } from "#player/dom.js";
import { filmType } from "#player/take/film.js";
import { NO_STOP, nameOfStop } from "#player/tour.js";
import { say } from "#player/words.js";

/** @import { Hosts, Model, Scene } from "#player/scene.d.ts" */
/** @typedef {ReturnType<typeof import("#player/take/takeaway.js").takeAway>} TakeAway */

/** How long the browser has to begin a download. */
const KEPT_MS = 60_000;

/**
 * @param {HTMLElement} root
 * @param {Model} model
 * @param {TakeAway} take
 * @param {() => Scene} now the displayed scene
 * @returns {() => void} opens it
 */
export function createMenu(root, model, take, now) {
  const dialog = find(root, "#take-dialog", HTMLDialogElement);
  const form = find(root, "#take-form", HTMLFormElement);
  const said = find(root, "#take-said", HTMLElement);
  const { beats } = model.doc;
  const [first, last] = ["first", "last"].map((name) => find(form, `[name=${name}]`, HTMLInputElement));
  find(root, "#take-film", HTMLElement).hidden = filmType() === "";
  for (const input of [first, last]) {
    input.max = String(beats.length);
  }
  /** @type {AbortController | null} */
  let recording = null;
  dialog.addEventListener("close", () => recording?.abort());

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const button = event.submitter;
    if (button instanceof HTMLButtonElement && !recording) {
      make(button.value).catch((error) => write(said, failed(error)));
    }
  });

  /** @param {string} kind */
  async function make(kind) {
    const figure = /** @type {keyof Hosts} */ (new FormData(form).get("figure"));
    const scene = now();
    const wanted = { ...scene, ...take.usual(figure) };
    if (kind === "webm") {
      const isTour = scene.tour !== NO_STOP;
      const stretch = { first: Number(first.value) - 1, last: Number(last.value) - 1, speed: 1, isTour };
      if (stretch.last < stretch.first) {
        write(said, say("take.menu.a_film_goes_from_one_beat", { value: first.value, value_2: last.value }));
        return;
      }
      recording = new AbortController();
      try {
        const film = { ...wanted, ...stretch, scale: 1 };
        const blob = await take.webm(film, (part) => write(said, say("take.menu.recording", { value: Math.round(100 * part) })), recording.signal);
        give(blob, nameOf(isTour ? "tour" : `beats-${first.value}-${last.value}`, figure, kind));
      } finally {
        recording = null;
      }
    } else {
      const beat = `beat-${model.beatOf[scene.position] + 1}${scene.hops ? `-step-${scene.position + 1}` : ""}`;
      const where = scene.tour === NO_STOP ? beat : `stop-${scene.tour + 1}`;
      const blob = kind === "png" ? await take.png(wanted) : new Blob([take.svg(wanted)], { type: "image/svg+xml" });
      give(blob, nameOf(where, figure, kind));
    }
  }

  /** @param {string} where @param {string} figure @param {string} kind */
  function nameOf(where, figure, kind) {
    const trace = model.doc.name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60);
    return [trace || "replay", figure === "stage" ? "" : figure, where].filter(Boolean).join("-").concat(".", kind);
  }

  /** @param {Blob} blob @param {string} name */
  function give(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
    write(said, say("take.menu.made", { name }));
  }

  return function open() {
    const { position, tour } = now();
    const beat = model.beatOf[position];
    const isTour = tour !== NO_STOP;
    const spoken = isTour ? `${nameOfStop(model, tour)}: ${model.doc.tour[tour].title}` : spokenBeat(model, beat);
    write(find(root, "#take-moment", HTMLElement), say("take.menu.this_moment", { spoken }));
    for (const input of [first, last]) {
      input.disabled = isTour; // on a tour, all of it is the film
    }
    write(said, "");
    first.value = String(beat + 1);
    last.value = String(Math.min(beats.length, beat + 3));
    openDialog(root, "take");
  };
}

/** @param {unknown} error */
function failed(error) {
  const isLeft = error instanceof DOMException && error.name === "AbortError";
  return isLeft ? "" : say("take.menu.it_could_not_be_made", { value: error instanceof Error ? error.message : error });
}
