// Starts Dash once the page is painted, so that it does not delay the first view. The server's HTML stays
// until Dash has drawn the same.
/* global document, getComputedStyle, requestAnimationFrame, setTimeout, MutationObserver */

const written = document.getElementById("written");
const drawn = document.getElementById("react-entry-point");
const SOON_MS = 1000;

/** What Dash does not answer comes as HTML (`components/written.py`), with the texts escaped. */
globalThis.zerosim = {
  Written: (/** @type {any} */ { tag, attributes, html }) =>
    globalThis.React.createElement(tag, { ...attributes, dangerouslySetInnerHTML: { __html: html } }),
};

function start() {
  /** @type {HTMLScriptElement | undefined} */
  let last;
  for (const data of document.querySelectorAll("#dash-scripts script")) {
    const script = document.createElement("script");
    for (const { name, value } of data.attributes) {
      if (name !== "type") {
        script.setAttribute(name, value);
      }
    }
    script.async = false;
    script.text = data.text;
    if (script.src || !last) {
      document.body.append(script);
      last = script;
    } else {
      // Scripts without an address would not wait for those with one.
      last.addEventListener("load", () => document.body.append(script));
    }
  }
}

/** The words of a figure are as large as those of the page. */
function wordSize() {
  return parseFloat(getComputedStyle(document.documentElement).fontSize);
}

/** Whether a part of it is in the window. @param {Element} place */
function isSeen(place) {
  const { top, bottom } = place.getBoundingClientRect();
  return bottom > 0 && top < globalThis.innerHeight;
}

/**
 * When the browser has nothing else to do, soon in any case.
 * @param {() => any} draw
 * @returns {Promise<any>}
 */
function whenIdle(draw) {
  const later = globalThis.requestIdleCallback ?? ((/** @type {() => void} */ call) => setTimeout(call));
  return new Promise((done) => later(() => done(draw()), { timeout: SOON_MS }));
}

/**
 * From now on Plotly draws a figure with such words at once, not a second time for their sake; one
 * that nobody sees comes after what is seen.
 * @param {any} plotly
 */
function teach(plotly) {
  const draw = plotly.react;
  const latest = new WeakMap();
  plotly.react = (place, figure, ...others) => {
    figure.layout.font = { ...figure.layout.font, size: wordSize() };
    latest.set(place, figure);
    if (isSeen(place)) {
      return draw(place, figure, ...others);
    }
    return whenIdle(() => (latest.get(place) === figure ? draw(place, figure, ...others) : place));
  };
  plotly.react.knowsWords = true;
}

/** Draw again the figures whose words have the wrong size. */
function fitWords() {
  const size = wordSize();
  for (const graph of drawn.querySelectorAll(".js-plotly-plot")) {
    if (!graph.layout?.font) {
      continue;
    }
    if (!globalThis.Plotly.react.knowsWords) {
      teach(globalThis.Plotly);
    }
    if (graph.layout.font.size !== size) {
      globalThis.Plotly.relayout(graph, { "font.size": size });
    }
  }
}

/** The window or the page's mode is another, and so the room of a figure. */
function fitRoom() {
  fitWords();
  for (const graph of drawn.querySelectorAll(".js-plotly-plot")) {
    globalThis.Plotly.Plots.resize(graph);
  }
}

new MutationObserver((_, observer) => {
  if (drawn.querySelector("#page, #planner")) {
    observer.disconnect();
    written.remove();
    drawn.hidden = false;
  }
}).observe(drawn, { childList: true, subtree: true });
const watch = new MutationObserver(() => {
  // to ask for the size of words has a browser compute all styles
  if (!globalThis.Plotly?.react.knowsWords) {
    fitWords();
  }
});
watch.observe(drawn, { childList: true, subtree: true });
new MutationObserver(fitRoom).observe(document.documentElement, { attributes: true });
globalThis.addEventListener("resize", fitRoom);
requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(start)));
