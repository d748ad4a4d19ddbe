// Starts Dash when the page is painted, so that nothing of it delays the first view. What the
// server wrote stands until Dash has drawn the same.
/* global document, getComputedStyle, requestAnimationFrame, setTimeout, MutationObserver */

const written = document.getElementById("written");
const drawn = document.getElementById("react-entry-point");

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
      // What has no address would not wait for those that have one.
      last.addEventListener("load", () => document.body.append(script));
    }
  }
}

/** The words of a figure are as large as those of the page. */
function fitWords() {
  const size = parseFloat(getComputedStyle(document.documentElement).fontSize);
  for (const graph of drawn.querySelectorAll(".js-plotly-plot")) {
    if (graph.layout && graph.layout.font.size !== size) {
      globalThis.Plotly.relayout(graph, { "font.size": size });
    }
  }
}

new MutationObserver((_, observer) => {
  if (drawn.querySelector("#page, #planner")) {
    observer.disconnect();
    written.remove();
    drawn.hidden = false;
  }
}).observe(drawn, { childList: true, subtree: true });
const watch = new MutationObserver(fitWords);
watch.observe(drawn, { childList: true, subtree: true });
watch.observe(document.documentElement, { attributes: true });
globalThis.addEventListener("resize", fitWords);
requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(start)));
