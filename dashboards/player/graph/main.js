// Starts the Graph page in the page that loads it.

import { mountGraph } from "#player/graph/page.js";
import { serverSource } from "#player/load.js";
import { watchLanguage } from "#player/language.js";

const root = document.getElementById("graph");
watchLanguage();
if (root) {
  mountGraph(root, serverSource(`${root.dataset.graph}${location.search}`));
}
