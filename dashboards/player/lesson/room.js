// A student's place in a room: join by code, leave, and see where the class is.
//
// The slot's `data-room` and `data-who` are sent along with an answer; an event "noted" at the slot reports
// the outcome. `data-told` lists the questions whose right answers the class has seen; `data-place` is set
// once it is known whether the page is in a room; an event "room" reports changes.

import { find, make, write } from "#player/dom.js";
import { withFields } from "#player/lesson/place.js";
import { lookAt, Refused } from "#player/room/server.js";
import { say } from "#player/room/words.js";

/** @import { Pointed } from "#player/room/server.js" */

const EVERY_MS = 3000;
const STORE = "zerosim-room";
const ROOM_OF_ADDRESS = "room";

const slot = find(document, "#room-slot", HTMLElement);
const summary = make("summary", "");
const field = make("input", "");
const form = make("form", "", make("label", "", `${say("student", "code")} `, field));
const leaving = make("p", "room-leave");
const said = make("p", "room-said");
const panel = make("div", "room-panel", form, leaving, said);
const menu = make("details", "room-menu", summary, panel);
const link = make("a", "class-at");
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let code = "";
/** The number of polls or exits: only the last one counts. */
let turns = 0;

/** Random, so that a class's answers are told apart, and kept while this tab is open. */
function token() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
}

/** @returns {{code: string, who: string}} */
function stored() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(STORE) ?? "{}");
    return {
      code: typeof kept.code === "string" ? kept.code : "",
      who: typeof kept.who === "string" ? kept.who : token(),
    };
  } catch {
    return { code: "", who: token() };
  }
}

const who = stored().who;

function keep() {
  try {
    sessionStorage.setItem(STORE, JSON.stringify({ code, who }));
  } catch {
    // The next page asks for the code again.
  }
}

/** The room that the address names; it is taken out of it, or leaving would not last. */
function fromAddress() {
  const address = new URL(location.href);
  const found = address.searchParams.get(ROOM_OF_ADDRESS) ?? "";
  if (found) {
    address.searchParams.delete(ROOM_OF_ADDRESS);
    history.replaceState(history.state, "", address);
  }
  return found;
}

/** @param {string} wanted */
async function join(wanted) {
  const typed = wanted.toUpperCase().replaceAll(/[\s-]/g, "");
  if (!/^[A-Z0-9]{6}$/.test(typed)) {
    tell(say("student", "bad_code"));
    return;
  }
  await look(typed);
}

/** Poll the position of the class, repeatedly. @param {string} asked */
async function look(asked) {
  clearTimeout(timer);
  turns += 1;
  const turn = turns;
  try {
    const at = await lookAt(asked, who);
    if (turn !== turns) {
      return;
    }
    if (!at.open) {
      tell(say("student", code ? "gone" : "none"));
      leave();
      return;
    }
    if (code !== at.code) {
      enter(at.code);
    }
    point(at);
    place("in", at.told);
  } catch (error) {
    if (!(error instanceof Refused)) {
      throw error;
    }
    if (turn !== turns) {
      return;
    }
    tell(error.message);
    if (!code) {
      return;
    }
  }
  timer = setTimeout(look, EVERY_MS * (0.85 + 0.3 * Math.random()), asked);
}

/** @param {string} entered */
function enter(entered) {
  code = entered;
  keep();
  tell("");
  menu.open = false;
  show();
}

function leave() {
  clearTimeout(timer);
  turns += 1;
  code = "";
  keep();
  show();
  link.hidden = true;
  place("out");
}

/** @param {"in" | "out"} where @param {readonly string[]} told as lesson/question */
function place(where, told = []) {
  const words = told.join(" ");
  if (slot.dataset.place !== where || slot.dataset.told !== words) {
    slot.dataset.place = where;
    slot.dataset.told = words;
    slot.dispatchEvent(new CustomEvent("room"));
  }
}

function show() {
  write(summary, code ? `${say("student", "in_room")} ${code}` : say("student", "room"));
  form.hidden = code !== "";
  leaving.hidden = code === "";
  menu.classList.toggle("is-in", code !== "");
  if (code) {
    slot.dataset.room = code;
    slot.dataset.who = who;
  } else {
    delete slot.dataset.room;
    delete slot.dataset.who;
  }
}

/** @param {Pointed} at */
function point({ lesson, title, step }) {
  const path = `/lessons/${encodeURIComponent(lesson)}`;
  const isHere = location.pathname === path;
  const hash = withFields(location.hash, { step: String(step) });
  link.hidden = lesson === "" || (isHere && location.hash === hash);
  const href = `${path}${isHere ? location.search : ""}${hash}`;
  if (link.getAttribute("href") !== href) {
    link.href = href;
  }
  write(link, `${say("student", "at")} ${title}`);
  if (said.textContent === say("both", "no_server")) {
    tell("");
  }
}

/** @param {string} words */
function tell(words) {
  write(said, words);
  said.hidden = words === "";
  if (words) {
    menu.open = true;
  }
}

/** The outcome of an answer. @param {Event} event */
function noted(event) {
  const outcome = event instanceof CustomEvent ? event.detail : "";
  if (outcome === "no room") {
    leave();
    tell(say("student", "gone"));
  } else if (outcome === "full" || outcome === "too often") {
    tell(say("student", outcome.replace(" ", "_")));
  } else {
    tell("");
  }
}

function begin() {
  field.size = 8;
  field.maxLength = 12;
  field.autocomplete = "off";
  field.spellcheck = false;
  field.autocapitalize = "characters";
  const submit = make("button", "primary", say("student", "join"));
  submit.title = say("student", "join_title");
  form.append(submit);
  if (slot.dataset.lecturer !== undefined) {
    const open = make("a", "", say("student", "lecturer"));
    open.href = "/room";
    form.append(open);
  }
  const out = make("button", "", say("student", "leave"));
  out.type = "button";
  out.title = say("student", "leave_title");
  out.addEventListener("click", leave);
  leaving.append(out);
  said.setAttribute("role", "status");
  said.hidden = true;
  link.hidden = true;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    event.stopPropagation(); // the lesson takes every other form for a question
    join(field.value);
  });
  slot.addEventListener("noted", noted);
  addEventListener("hashchange", () => code && look(code));
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      menu.open = false;
      summary.focus();
    }
  });
  slot.append(menu, link);
  show();
  const wanted = fromAddress() || stored().code;
  if (wanted) {
    join(wanted);
  } else {
    place("out");
  }
}

begin();
