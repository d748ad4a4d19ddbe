// Starts the Compare page in the page that loads it.

import { mountCompare } from "#player/compare/page.js";
import { watchLanguage } from "#player/language.js";

const root = document.getElementById("compare");
watchLanguage();
if (root) {
  mountCompare(root, new URLSearchParams(root.dataset.query).getAll("trace"));
}
