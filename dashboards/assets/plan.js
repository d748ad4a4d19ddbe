// The page Plan: a point of its charts leads to its layout, and a layout is simulated and replayed.
/* global document, fetch, location, history, setTimeout, CustomEvent, Element, FormData,
   HTMLButtonElement, HTMLFormElement, MutationObserver, URLSearchParams */

const SIMULATE = "/api/plan/simulate";
const LOOK_EVERY_MS = 500;
const MOST_LETTERS = 20000;
const LABELS = new Set(["id2label", "label2id"]);

/** Go to another address of the page without a new page, as Dash's own links do. @param {string} address */
function follow(address) {
  history.pushState({}, "", address);
  globalThis.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
}

/** Figures come anew with each layout, and listen to their points once. */
function listen() {
  for (const graph of document.querySelectorAll("#planner .js-plotly-plot")) {
    const plot = /** @type {any} */ (graph);
    if (!plot.leads && plot.on) {
      plot.leads = true;
      plot.on("plotly_click", (/** @type {any} */ { points }) => {
        const address = points[0]?.customdata;
        if (address) {
          follow(address);
        }
      });
    }
  }
}

/**
 * What the server answers, or one line that says why there is nothing; "" if it is silent.
 * @param {string} address @param {object} [body]
 */
async function ask(address, body) {
  const sent = body && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const answer = await fetch(address, sent).catch(() => null);
  const text = (await answer?.text().catch(() => "")) ?? "";
  try {
    const plain = JSON.parse(text);
    return plain.error ? { state: "failed", said: plain.error } : plain;
  } catch {
    return { state: "failed", said: text.trim().split("\n")[0] };
  }
}

/** Simulate the layout that is shown, say how far that is, and open Replay. @param {HTMLButtonElement} button */
async function simulate(button) {
  const query = location.search;
  const say = (/** @type {string} */ words = "") => {
    const said = document.getElementById("simulated");
    if (said && location.search === query) {
      said.textContent = words;
    }
  };
  button.disabled = true;
  let job = await ask(SIMULATE, { query });
  while (job.state === "waiting" || job.state === "running") {
    say(job.said);
    await new Promise((done) => setTimeout(done, LOOK_EVERY_MS));
    job = await ask(`${SIMULATE}/${encodeURIComponent(job.ticket)}`);
  }
  say(job.said || button.dataset.silent);
  button.disabled = false;
  if (job.address && location.search === query) {
    location.assign(job.address);
  }
}

/** A model of one's own is asked for as its links are: the address has it. @param {HTMLFormElement} form */
function ownModel(form) {
  const asked = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    asked.set(name, String(value));
  }
  follow(`${form.getAttribute("action")}?${asked}`);
}

/** A file is read into the field, and asked for. @param {HTMLFormElement} form */
function chooseFile(form) {
  const chooser = document.createElement("input");
  chooser.type = "file";
  chooser.accept = ".json,application/json";
  chooser.addEventListener("change", async () => {
    const area = form.querySelector("textarea");
    const file = chooser.files?.[0];
    if (area && file) {
      area.value = shorter(await file.text());
      ownModel(form);
    }
  });
  chooser.click();
}

/** The same without what only a person reads; as it is if it is no JSON. @param {string} text */
function shorter(text) {
  try {
    return JSON.stringify(JSON.parse(text), (name, value) => (LABELS.has(name) ? undefined : value));
  } catch {
    return text.slice(0, MOST_LETTERS);
  }
}

document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("#planner a[href]") : null;
  const isPlain = !(event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  const address = link?.getAttribute("href");
  if (isPlain && address?.startsWith("/plan?")) {
    event.preventDefault();
    follow(address);
  }
});
document.addEventListener("submit", (event) => {
  if (event.target instanceof HTMLFormElement && event.target.id === "own-model") {
    event.preventDefault();
    const area = event.target.querySelector("textarea");
    if (area) {
      area.value = shorter(area.value);
    }
    ownModel(event.target);
  }
});
document.addEventListener("click", ({ target }) => {
  const choose = target instanceof Element ? target.closest("#own-choose") : null;
  const form = choose?.closest("form");
  if (form) {
    chooseFile(form);
  }
  const button = target instanceof Element ? target.closest("#simulate") : null;
  if (button instanceof HTMLButtonElement) {
    simulate(button);
  }
});
new MutationObserver(listen).observe(document.body, { childList: true, subtree: true });
