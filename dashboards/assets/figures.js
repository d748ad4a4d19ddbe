// Draws the figures of a page that is a file: Dash, which draws them on a server's page, is not there.
/* global document, getComputedStyle */

const size = parseFloat(getComputedStyle(document.documentElement).fontSize);
for (const place of document.querySelectorAll("[data-figure]")) {
  const { data, layout } = JSON.parse(place.dataset.figure);
  const words = { ...layout, autosize: true, font: { ...layout.font, size } };
  place.style.height = "100%";
  globalThis.Plotly.newPlot(place, data, words, { displayModeBar: false, responsive: true });
}
