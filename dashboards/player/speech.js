// Speaks the text of a screen reader, on demand only.

import { find, setPressed } from "#player/dom.js";
import { language, say } from "#player/words.js";

/** Spoken forms of signs. @type {readonly (readonly [RegExp, string])[]} */
const SPOKEN = [
  [/\(N[−-]1\)\/N/g, say("speech.times_n_minus")],
  [/\/N\b/g, say("speech.over_n")],
  [/Ψ/g, say("speech.psi")],
  [/b·s·h/g, say("speech.bsh")],
  [/·/g, say("speech.pause")],
  [/\b(\d+)\/(\d+)\b/g, say("speech.over")],
  [/(\d) kB\b/g, say("speech.kilobytes")],
  [/(\d) MB\b/g, say("speech.megabytes")],
  [/(\d) GB\b/g, say("speech.gigabytes")],
  [/(\d) B\b/g, say("speech.bytes")],
  [/(\d) ms\b/g, say("speech.milliseconds")],
  [/−/g, say("speech.minus")],
  [/ {2,}/g, " "],
];

/** A text in its spoken form. @param {string} text */
export function spoken(text) {
  return SPOKEN.reduce((said, [sign, word]) => said.replace(sign, word), text).trim();
}

/**
 * @param {HTMLElement} root
 * @param {() => string} now returns the current text
 */
export function createSpeech(root, now) {
  const button = find(root, "#say", HTMLButtonElement);
  const voice = globalThis.speechSynthesis;
  button.hidden = !voice;
  /** The text being spoken; "" if none. */
  let saying = "";

  /** @param {string} text */
  function show(text) {
    saying = text;
    setPressed(root, "#say", text !== "");
  }

  function stop() {
    if (saying !== "") {
      show("");
      voice.cancel();
    }
  }

  function toggle() {
    if (saying !== "" || !voice) {
      stop();
      return;
    }
    const utterance = new SpeechSynthesisUtterance(spoken(now()));
    utterance.lang = language;
    const over = () => {
      if (saying === utterance.text) {
        show("");
      }
    };
    utterance.addEventListener("end", over);
    utterance.addEventListener("error", over);
    show(utterance.text);
    voice.speak(utterance);
  }

  /** The place has changed: continue with its text, if speaking. @param {string} text */
  function follow(text) {
    if (saying !== "" && spoken(text) !== saying) {
      stop();
      toggle();
    }
  }

  return { toggle, stop, follow };
}
