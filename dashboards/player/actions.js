// What buttons and keys do, by name: `data-action` in player.html, `action` in keys.js.

import { unitName } from "#player/breakpoints.js";
import { openDialog } from "#player/dialogs.js";
import { effectiveTheme, storeTheme } from "#player/theme.js";
import { atTenth, move } from "#player/transport.js";

/** @import { Player } from "#player/player.js" */

/** @typedef {Record<string, (key: string) => void>} Actions by name; told the key, or "" */

const MOVES = /** @type {const} */ ([
  "first", "back", "forward", "last", "over", "into", "out", "nextPhase", "previousPhase",
]);

/**
 * @param {Player} player
 * @returns {Actions}
 */
export function createActions(player) {
  const { model, clock, place, root } = player;
  /** @type {Actions} */
  const moves = {};
  for (const name of MOVES) {
    moves[name] = () => player.seek(move(name, model, clock.position, player.breaks));
  }
  /** @param {number} by */
  const turn = (by) => player.change({ rank: (place.rank + by + model.numRanks) % model.numRanks });
  return {
    ...moves,
    play() {
      if (clock.playing) {
        clock.pause();
      } else {
        clock.play();
      }
      player.ask();
    },
    tenth: (key) => player.seek(atTenth(model, Number(key))),
    rankUp: () => turn(-1),
    rankDown: () => turn(1),
    breakHere: () => player.change({ breakpoints: toggleHere(player) }),
    breakpoints: () => openDialog(root, "breaks"),
    run: () => openDialog(root, "run"),
    help: () => openDialog(root, "help"),
    peak: () => player.seek(model.doc.memory?.ranks[place.rank]?.peak_step ?? clock.position),
    table: () => player.change({ table: !place.table }),
    present: () => player.change({ mode: place.mode === "present" ? "work" : "present" }),
    theme() {
      const theme = effectiveTheme(place.theme) === "dark" ? "light" : "dark";
      storeTheme(theme);
      player.change({ theme });
    },
  };
}

/** Break at steps of this kind and unit, or no longer. @param {Player} player */
function toggleHere({ model, clock, place: { breakpoints } }) {
  const step = model.doc.steps[clock.position];
  const unit = unitName(model, step) || undefined;
  const others = breakpoints.filter(
    (one) =>
      one.kind !== step.kind || one.unit !== unit || one.rank !== undefined || one.bytes !== undefined,
  );
  if (others.length < breakpoints.length) {
    return others;
  }
  return [...others, unit ? { kind: step.kind, unit } : { kind: step.kind }];
}
