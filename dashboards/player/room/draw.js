// Draws the answers of a class. Students' input is text: never markup.

import { find, make, write } from "#player/dom.js";
import { say } from "#player/room/words.js";

const SOON_S = 1200;

/** @import { Bar, Tally, Thought } from "#player/room/server.js" */

/**
 * Show a tally.
 * @param {HTMLElement} root
 * @param {Tally} tally
 */
export function drawTally(root, tally) {
  const { bars = [], thoughts = [], choices = [], num_answered: num, solved } = tally;
  const isAt = tally.question !== "";
  const shown = isAt && tally.reveal;
  drawCounts(root, tally);
  write(find(root, "#words", HTMLElement), tally.words ?? "");
  hide(root, "#at", !isAt);
  hide(root, "#how", isAt);
  hide(root, "#hidden", !isAt || tally.reveal);
  drawChoices(find(root, "#choices", HTMLElement), isAt && !tally.reveal ? choices : []);
  hide(root, "#shown", !shown);
  hide(root, "#key", !shown);
  hide(root, "#no-answers", num > 0);
  drawBars(find(root, "#bars", HTMLElement), shown ? bars : [], num, solved, tally.unit ?? "");
  const isSolved = shown && solved;
  hide(root, "#solved", !isSolved);
  drawThoughts(root, isSolved ? thoughts : []);
  write(find(root, "#explain", HTMLElement), isSolved ? (tally.explain ?? "") : "");
  write(find(root, "#share-first", HTMLElement), isSolved ? percent(tally.right_first ?? 0, num) : "");
  write(find(root, "#share-latest", HTMLElement), isSolved ? percent(tally.right_latest ?? 0, num) : "");
}

/** @param {HTMLElement} root @param {Tally} tally */
function drawCounts(root, { num_students: students, num_answered: num, left_s: left, question }) {
  write(find(root, "#students", HTMLElement), String(students));
  write(find(root, "#students-words", HTMLElement), say("lecturer", "students", { num: students }));
  write(find(root, "#left", HTMLElement), question && left > SOON_S ? "" : remaining(left));
  find(root, ".strip .join", HTMLElement).hidden = !question;
  write(find(root, "#answered", HTMLElement), question ? say("lecturer", "answered", { num, of: Math.max(num, students) }) : "");
  const progress = find(root, "#progress", HTMLProgressElement);
  progress.max = Math.max(1, num, students);
  progress.value = num;
}

/** The options, while there are no bars. @param {HTMLElement} list @param {readonly string[]} choices */
function drawChoices(list, choices) {
  const key = JSON.stringify(choices);
  list.hidden = choices.length === 0;
  if (list.dataset.drawn !== key) {
    list.dataset.drawn = key;
    list.replaceChildren(...choices.map((label) => make("li", "", label)));
  }
}

/**
 * @param {HTMLElement} list
 * @param {readonly Bar[]} bars
 * @param {number} num number of answers: the length of the longest possible bar
 * @param {boolean} marked
 * @param {string} unit
 */
function drawBars(list, bars, num, marked, unit) {
  const key = JSON.stringify([bars, num, marked]);
  if (list.dataset.drawn === key) {
    return;
  }
  list.dataset.drawn = key;
  const longest = Math.max(1, ...bars.map(({ first, latest }) => Math.max(first, latest)));
  list.replaceChildren(...bars.map((bar) => drawBar(bar, longest, marked, unit)));
}

/** @param {Bar} bar @param {number} longest @param {boolean} marked @param {string} unit */
function drawBar({ label, first, latest, is_right: isRight }, longest, marked, unit) {
  const told = marked && isRight;
  const name = make("span", "bar-name", unit && /^[-\d.,e+]+$/.test(label) ? `${label} ${unit}` : label);
  if (told) {
    const mark = make("span", "mark good", "✓");
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", say("lecturer", "right"));
    name.append(" ", mark);
  }
  const before = make("span", "bar-first");
  const now = make("span", "bar-latest");
  before.style.width = `${(100 * first) / longest}%`;
  now.style.width = `${(100 * latest) / longest}%`;
  const count = make("span", "bar-count", numbers(first, latest));
  count.setAttribute("aria-hidden", "true");
  const track = make("span", "bar-track", before, now);
  const item = make("li", told ? "told" : "", name, track, count);
  item.append(make("span", "unseen", say("lecturer", "bar_words", { first, latest })));
  return item;
}

/** @param {HTMLElement} root @param {readonly Thought[]} thoughts */
function drawThoughts(root, thoughts) {
  hide(root, "#no-thoughts", thoughts.length > 0);
  const list = find(root, "#thoughts", HTMLElement);
  const key = JSON.stringify(thoughts);
  if (list.dataset.drawn !== key) {
    list.dataset.drawn = key;
    list.replaceChildren(
      ...thoughts.map(({ name, first, latest }) =>
        make("li", "", make("span", "thought", `“${name}”`), make("b", "", numbers(first, latest))),
      ),
    );
  }
}

/** @param {HTMLElement} root @param {string} selector @param {boolean} isHidden */
function hide(root, selector, isHidden) {
  find(root, selector, HTMLElement).hidden = isHidden;
}

/** @param {number} first @param {number} latest */
function numbers(first, latest) {
  return first === latest ? String(latest) : `${first} → ${latest}`;
}

/** @param {number} num @param {number} of */
function percent(num, of) {
  return of ? `${Math.round((100 * num) / of)} %` : "–";
}

/** @param {number} seconds */
function remaining(seconds) {
  const minutes = Math.ceil(seconds / 60);
  return minutes > 90
    ? say("lecturer", "left_hours", { num: Math.round(minutes / 60) })
    : say("lecturer", "left_minutes", { num: minutes });
}
