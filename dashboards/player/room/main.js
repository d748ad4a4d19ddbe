// The lecturer's page of a room: open it, point the class at a question, show its answers.

import { fillSelect, find, write } from "#player/dom.js";
import { drawTally } from "#player/room/draw.js";
import { closeRoom, openRoom, Refused, showInRoom, tallyOf } from "#player/room/server.js";
import { say } from "#player/room/words.js";

/** @import { Opened, Tally } from "#player/room/server.js" */
/** @typedef {{id: string, title: string, questions: string[]}} Pick a lesson and its questions */
/** @typedef {{lesson: string, question: string, reveal: boolean, solved: boolean}} Pointed */

const EVERY_MS = 2000;
const STORE = "zerosim-lecturers-room";

const root = find(document, "#room", HTMLElement);
const lessons = find(root, "#lesson", HTMLSelectElement);
const questions = find(root, "#question", HTMLSelectElement);
const reveal = find(root, "#reveal", HTMLButtonElement);
const mark = find(root, "#mark", HTMLButtonElement);
const dialog = find(root, "#close-dialog", HTMLDialogElement);
/** @type {Pick[]} */
const picks = JSON.parse(find(document, "#picks", HTMLElement).textContent ?? "[]");

/** @type {Opened | null} */
let room = restored();
/** @type {Tally | null} */
let tally = null;
/** Counts requests, so that a late response does not replace a newer one. */
let asked = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** Updates of the class's position: one after the other, or the first could be applied last. */
let pointing = Promise.resolve();
/** How many of them are not done: until then a tally may be older than the choice. */
let numPointing = 0;

fillSelect(lessons, [["", say("lecturer", "none")], ...picks.map(({ id, title }) => /** @type {const} */ ([id, title]))]);
lessons.addEventListener("change", () => {
  pointAt(lessons.value, picked()?.questions[0] ?? "");
  fillQuestions();
});
questions.addEventListener("change", () => pointAt(lessons.value, questions.value));
reveal.addEventListener("click", () => turnReveal());
mark.addEventListener("click", () => turnMark());
find(root, "#open", HTMLButtonElement).addEventListener("click", () => tryTo(begin));
find(root, "#close", HTMLButtonElement).addEventListener("click", () => dialog.showModal());
find(root, "#stay", HTMLButtonElement).addEventListener("click", () => dialog.close());
find(root, "#close-now", HTMLButtonElement).addEventListener("click", () => tryTo(end));
document.addEventListener("keydown", pressed);
showState();
if (room) {
  look();
}

/** A room that this tab has opened before, as after a reload. @returns {Opened | null} */
function restored() {
  try {
    const { code, key } = JSON.parse(sessionStorage.getItem(STORE) ?? "{}");
    return typeof code === "string" && typeof key === "string" ? { code, key } : null;
  } catch {
    return null;
  }
}

async function begin() {
  room = await openRoom();
  sessionStorage.setItem(STORE, JSON.stringify(room));
  tell("");
  showState();
  await look();
}

async function end() {
  dialog.close();
  if (room) {
    await closeRoom(room);
    forget();
  }
}

function forget() {
  clearTimeout(timer);
  asked += 1;
  room = null;
  tally = null;
  sessionStorage.removeItem(STORE);
  showState();
  tell(say("lecturer", "gone"));
}

function showState() {
  find(root, "#outside", HTMLElement).hidden = room !== null;
  find(root, "#inside", HTMLElement).hidden = room === null;
  for (const place of root.querySelectorAll(".room-code")) {
    write(place, room?.code ?? "");
  }
  const picture = find(root, "#qr", HTMLImageElement);
  picture.hidden = room === null;
  if (room) {
    picture.src = `/join/${encodeURIComponent(room.code)}/qr`;
    picture.alt = say("lecturer", "qr");
  } else {
    picture.removeAttribute("src");
  }
}

/** Ask for the tally, and again in a while. */
async function look() {
  if (!room) {
    return;
  }
  clearTimeout(timer);
  asked += 1;
  const number = asked;
  try {
    const found = await tallyOf(room);
    if (number === asked) {
      tally = found;
      tell("");
      draw();
    }
  } catch (error) {
    if (number === asked) {
      heard(error);
    }
  }
  if (number === asked && room) {
    timer = setTimeout(look, EVERY_MS);
  }
}

function draw() {
  if (!tally) {
    return;
  }
  drawTally(root, tally);
  if (numPointing === 0 && document.activeElement !== lessons) {
    lessons.value = tally.lesson;
  }
  fillQuestions();
  reveal.disabled = mark.disabled = tally.question === "";
  turn(reveal, tally.reveal, say("lecturer", tally.reveal ? "hide_answers" : "show_answers"));
  turn(mark, tally.solved, say("lecturer", tally.solved ? "hide_right" : "show_right"));
}

function fillQuestions() {
  const found = picked()?.questions ?? [];
  const drawn = found.join(" ");
  if (questions.dataset.drawn !== drawn) {
    questions.dataset.drawn = drawn;
    fillSelect(questions, found.map((id, place) => [id, say("lecturer", "question_of", { number: place + 1, of: found.length })]));
  }
  questions.disabled = found.length === 0;
  if (tally && numPointing === 0 && document.activeElement !== questions) {
    questions.value = tally.question;
  }
}

/** @param {HTMLButtonElement} button @param {boolean} isOn @param {string} words */
function turn(button, isOn, words) {
  button.setAttribute("aria-pressed", String(isOn));
  write(button, words);
}

function picked() {
  return picks.find(({ id }) => id === lessons.value);
}

/** @param {string} lesson @param {string} question */
function pointAt(lesson, question) {
  show(() => ({ lesson, question, reveal: false, solved: false }));
}

function turnReveal() {
  show(({ reveal: was, solved, ...at }) => (at.question ? { ...at, reveal: !was, solved: solved && !was } : null));
}

function turnMark() {
  show(({ reveal: was, solved, ...at }) => (at.question ? { ...at, reveal: was || !solved, solved: !solved } : null));
}

/** @param {(now: Pointed) => Pointed | null} change of the displayed position once all earlier ones are done;
 *  null for none */
function show(change) {
  numPointing += 1;
  pointing = pointing.catch(() => {}).then(() => tryTo(async () => {
    const { lesson = "", question = "", reveal = false, solved = false } = tally ?? {};
    const next = change({ lesson, question, reveal, solved });
    try {
      if (room && next) {
        await showInRoom(room, next);
      }
    } finally {
      numPointing -= 1;
    }
    if (next) {
      await look();
    }
  }));
}

/** @param {number} by to the next question of the lesson, or the one before */
function step(by) {
  show(({ lesson, question }) => {
    const found = picks.find(({ id }) => id === lesson)?.questions ?? [];
    const next = found[found.indexOf(question) + by];
    return next ? { lesson, question: next, reveal: false, solved: false } : null;
  });
}

/** @param {() => Promise<void>} action */
async function tryTo(action) {
  try {
    await action();
  } catch (error) {
    heard(error);
  }
}

/** @param {unknown} error */
function heard(error) {
  if (!(error instanceof Refused)) {
    throw error;
  }
  if (error.isGone) {
    forget();
  } else {
    tell(error.message);
  }
}

/** @param {string} words */
function tell(words) {
  write(find(root, "#said", HTMLElement), words);
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  const isTyping = event.target instanceof Element && event.target.closest("input, select, textarea, dialog");
  if (!room || isTyping || event.ctrlKey || event.altKey || event.metaKey) {
    return;
  }
  const actions = { a: turnReveal, c: turnMark, n: () => step(1), b: () => step(-1) };
  if (event.key in actions) {
    actions[/** @type {keyof typeof actions} */ (event.key)]();
  }
}
