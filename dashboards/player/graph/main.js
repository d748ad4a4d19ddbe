// Starts the Graph page in the page that loads it.

import { mountGraph } from "#player/graph/page.js";
import { serverSource } from "#player/load.js";

const root = document.getElementById("graph");
if (root) {
  mountGraph(root, serverSource(`${root.dataset.graph}${location.search}`));
}
