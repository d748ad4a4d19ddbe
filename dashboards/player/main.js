// Starts the player in the page that loads it.

import { embeddedSource, serverSource } from "#player/load.js";
import { mountPlayer } from "#player/player.js";
import { watchLanguage } from "#player/language.js";

const root = document.getElementById("player");
const embedded = document.getElementById("replay-document");
watchLanguage();
if (root) {
  const address = (root.dataset.replay ?? "/api/replay") + location.search;
  mountPlayer(root, embedded ? embeddedSource(embedded.textContent ?? "") : serverSource(address));
}
