// Opens a run in Perfetto: in a tab of its own, to which this page hands the file.
/* global document, fetch, location, setInterval, clearInterval, setTimeout, clearTimeout, window, addEventListener, removeEventListener, URLSearchParams */

import { say } from "#player/words.js";

const ASK_EVERY_MS = 50;
const ASK_FOR_MS = 300_000; // it is large, and computers are slow
const origin = document.querySelector('meta[name="perfetto"]').content;

/** @param {string} tag @param {string} text @param {Record<string, string>} [attributes] */
function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  return element;
}

/** Pings the tab until it answers; Perfetto sends PONG when it can take a file. @param {Window} tab */
function ready(tab) {
  return new Promise((resolve, reject) => {
    const asking = setInterval(() => tab.postMessage("PING", origin), ASK_EVERY_MS);
    const end = setTimeout(() => over(reject, new Error(say("assets.perfetto.does_not_answer", { origin }))), ASK_FOR_MS);
    const heard = (event) => {
      if (event.source === tab && event.origin === origin && event.data === "PONG") {
        over(resolve);
      }
    };
    function over(settle, value) {
      clearInterval(asking);
      clearTimeout(end);
      removeEventListener("message", heard);
      settle(value);
    }
    addEventListener("message", heard);
  });
}

/** The run's file; only the trace in the address selects it. */
async function file() {
  const trace = new URLSearchParams(location.search).get("trace");
  const answer = await fetch(`/api/perfetto${trace === null ? "" : `?${new URLSearchParams({ trace })}`}`);
  if (!answer.ok) {
    throw new Error((await answer.json()).error);
  }
  return { buffer: await answer.arrayBuffer(), title: trace ?? "zerosim" };
}

const dialog = make("dialog", "", { id: "perfetto-dialog", "aria-labelledby": "perfetto-title" });
const said = make("p", "", { role: "status" });
const go = make("button", say("assets.perfetto.open"), { type: "button", class: "primary" });
const close = make("button", say("assets.perfetto.close"), { type: "button" });
dialog.append(
  make("h2", say("assets.perfetto.title"), { id: "perfetto-title" }),
  make("p", say("assets.perfetto.what", { origin })),
  make("p", say("assets.perfetto.nothing_else")),
  said,
  go,
  close,
);
document.querySelector(".player").append(dialog);
close.addEventListener("click", () => dialog.close());
go.addEventListener("click", () => {
  const tab = window.open(origin);
  if (tab === null) {
    said.textContent = say("assets.perfetto.the_browser_let_no_tab_open");
    return;
  }
  said.textContent = say("assets.perfetto.preparing_the_run");
  Promise.all([file(), ready(tab)]).then(
    ([perfetto]) => {
      tab.postMessage({ perfetto }, origin, [perfetto.buffer]);
      said.textContent = say("assets.perfetto.perfetto_has_it");
    },
    (error) => {
      said.textContent = say("assets.perfetto.it_could_not_be_opened", { message: error.message });
    },
  );
});

const button = make("button", "Perfetto", { type: "button", id: "perfetto", title: say("assets.perfetto.open_this_run_in_perfetto") });
button.addEventListener("click", () => {
  said.textContent = "";
  dialog.showModal();
});
const tools = document.querySelector("header .tools");
tools.insertBefore(button, tools.querySelector("#take")?.nextSibling ?? tools.firstChild);
