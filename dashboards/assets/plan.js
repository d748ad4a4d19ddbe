// The page Plan: a point of its charts leads to its layout, and a layout is simulated and replayed.
/* global document, fetch, location, history, setTimeout, CustomEvent, Element, HTMLButtonElement,
   MutationObserver */

const SIMULATE = "/api/plan/simulate";
const LOOK_EVERY_MS = 500;

/** What the page says where no answer comes, in its language. */
function silence() {
  return document.querySelector("#simulate")?.dataset.silence ?? "";
}

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
 * What the server answers, or one line that says why there is nothing.
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
    return { state: "failed", said: text.trim().split("\n")[0] || silence() };
  }
}

/** Simulate the layout that is shown, say how far that is, and open Replay. @param {HTMLButtonElement} button */
async function simulate(button) {
  const query = location.search;
  const say = (/** @type {string} */ words) => {
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
  say(job.said);
  button.disabled = false;
  if (job.address && location.search === query) {
    location.assign(job.address);
  }
}

document.addEventListener("click", ({ target }) => {
  const button = target instanceof Element ? target.closest("#simulate") : null;
  if (button instanceof HTMLButtonElement) {
    simulate(button);
  }
});
new MutationObserver(listen).observe(document.body, { childList: true, subtree: true });
