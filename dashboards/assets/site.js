// The search of a published site: its index is a script beside the pages, loaded on first input.
/* global document, self */

const here = document.currentScript;
const field = document.getElementById("site-search");
const found = document.getElementById("site-found");
const MOST = 12;
const AROUND = 60;
let asked = false;

const menu = document.querySelector(".book-menu");
if (menu && self.matchMedia("(width <= 800px)").matches) {
  menu.removeAttribute("open"); // the page comes first on a small screen
}

function load() {
  if (!asked) {
    asked = true;
    const script = document.createElement("script");
    script.src = here.dataset.index;
    script.addEventListener("load", show);
    document.head.append(script);
  }
}

/** Rows in which all words are; a word in a title counts more than one in a text. */
function look(words) {
  const scored = [];
  for (const row of self.zerosimIndex ?? []) {
    const [, title, name, text] = row;
    const [inTitle, inName, inText] = [title, name, text].map((one) => one.toLowerCase());
    let score = 0;
    for (const word of words) {
      const points = 4 * inTitle.includes(word) + 6 * inName.includes(word) + inText.includes(word);
      if (points === 0) {
        score = 0;
        break;
      }
      score += points;
    }
    if (score > 0) {
      scored.push({ row, score });
    }
  }
  return scored.sort((a, b) => b.score - a.score).slice(0, MOST).map((one) => one.row);
}

/** The words around the first that was looked for. */
function excerpt(text, word) {
  const at = Math.max(text.toLowerCase().indexOf(word), 0);
  const start = Math.max(at - AROUND, 0);
  const end = Math.min(at + word.length + AROUND, text.length);
  return `${start > 0 ? "… " : ""}${text.slice(start, end)}${end < text.length ? " …" : ""}`;
}

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = words.length === 0 || !self.zerosimIndex;
  if (found.hidden) {
    return;
  }
  const rows = look(words);
  found.replaceChildren(...rows.map(([at, title, name, text]) => {
    const link = document.createElement("a");
    link.href = here.dataset.pages + at;
    const head = document.createElement("b");
    head.textContent = name ? `${title.replace(" · zerosim", "")} › ${name}` : title;
    const said = document.createElement("span");
    said.textContent = excerpt(text, words[0]);
    link.append(head, said);
    return link;
  }));
  if (rows.length === 0) {
    found.textContent = here.dataset.none;
  }
}

field?.addEventListener("focus", load);
field?.addEventListener("input", () => {
  load();
  show();
});
field?.addEventListener("keydown", (event) => {
  event.stopPropagation(); // keys of a replay are letters
  if (event.key === "Enter") {
    found.querySelector("a")?.click();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && found) {
    found.hidden = true;
  }
});
