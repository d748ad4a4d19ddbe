// Says aloud what a screen reader would read, on demand only; never by itself.

import { find, setPressed } from "#player/dom.js";

/** How signs are said. @type {readonly (readonly [RegExp, string])[]} */
const SPOKEN = [
  [/\(N[−-]1\)\/N/g, " times N minus 1 over N"],
  [/\/N\b/g, " over N"],
  [/Ψ/g, " psi"],
  [/b·s·h/g, " b s h"],
  [/·/g, ","],
  [/\b(\d+)\/(\d+)\b/g, "$1 over $2"],
  [/(\d) kB\b/g, "$1 kilobytes"],
  [/(\d) MB\b/g, "$1 megabytes"],
  [/(\d) GB\b/g, "$1 gigabytes"],
  [/(\d) B\b/g, "$1 bytes"],
  [/(\d) ms\b/g, "$1 milliseconds"],
  [/−/g, " minus "],
  [/ {2,}/g, " "],
];

/** A text as it is said. @param {string} text */
export function spoken(text) {
  return SPOKEN.reduce((said, [sign, word]) => said.replace(sign, word), text).trim();
}

/**
 * @param {HTMLElement} root
 * @param {() => string} say what there is to say now
 */
export function createSpeech(root, say) {
  const button = find(root, "#say", HTMLButtonElement);
  const voice = globalThis.speechSynthesis;
  button.hidden = !voice;
  /** What is being said; "" if nothing is. */
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
    const utterance = new SpeechSynthesisUtterance(spoken(say()));
    utterance.lang = "en";
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

  /** What is shown is another place: go on with that, if something is being said. @param {string} text */
  function follow(text) {
    if (saying !== "" && spoken(text) !== saying) {
      stop();
      toggle();
    }
  }

  return { toggle, stop, follow };
}
