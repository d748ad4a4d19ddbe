// Starts the Compare page in the page that loads it.

import { mountCompare } from "#player/compare/page.js";

const root = document.getElementById("compare");
if (root) {
  mountCompare(root, new URLSearchParams(root.dataset.query).getAll("trace"));
}
