// The actions of buttons and keys, by name: `data-action` in player.html, `action` in keys.js.

import { unitName } from "#player/breakpoints.js";
import { openDialog } from "#player/dialogs.js";
import { hasLanguages, switchLanguage } from "#player/language.js";
import { effectiveTheme, storeMode, storeTheme } from "#player/theme.js";
import { NO_STOP, TOUR_MOVES } from "#player/tour.js";
import { atTenth, move, stillAfter } from "#player/transport.js";

/** @import { Player } from "#player/player.js" */
/** @import { Screen } from "#player/screen.js" */

/** @typedef {Record<string, (key: string) => void>} Actions by name; told the key, or "" */

const MOVES = /** @type {const} */ ([
  "first", "back", "forward", "last", "nextHop", "previousHop", "over", "into", "out", "nextPhase", "previousPhase",
]);

/**
 * The actions of every screen.
 * @param {Screen} screen
 * @returns {Actions}
 */
export function commonActions(screen) {
  const { clock, place, root, ground } = screen;
  /** @param {number} by */
  const turn = (by) => {
    const { length } = ground.doc.ranks;
    screen.change({ rank: (place.rank + by + length) % length });
  };
  return {
    play() {
      if (clock.playing) {
        clock.pause();
      } else {
        clock.play();
      }
      screen.ask();
    },
    tenth: (key) => screen.seek(atTenth(clock.model, Number(key))),
    rankUp: () => turn(-1),
    rankDown: () => turn(1),
    table: () => screen.change({ table: !place.table }),
    present() {
      const mode = place.mode === "present" ? "work" : "present";
      storeMode(mode);
      screen.change({ mode });
    },
    theme() {
      const theme = effectiveTheme(place.theme) === "dark" ? "light" : "dark";
      storeTheme(theme);
      screen.change({ theme });
    },
    run: () => openDialog(root, "run"),
    ...(hasLanguages() ? { language: switchLanguage } : {}),
    help: () => openDialog(root, "help"),
  };
}

/**
 * The actions of the player.
 * @param {Player} player
 * @returns {Actions}
 */
export function createActions(player) {
  const { model, clock, place, root } = player;
  /** @type {Actions} */
  const moves = {};
  for (const name of MOVES) {
    const onTour = TOUR_MOVES[name];
    moves[name] = () => {
      if (onTour && place.tour !== NO_STOP) {
        player.visit(onTour(place.tour, model.doc.tour.length));
      } else if (!place.hops && (name === "forward" || name === "back")) {
        const { position, isOver } = stillAfter(name, model, clock);
        player.seek(position, isOver);
      } else {
        player.seek(move(name, model, clock.position, player.breaks, place.hops));
      }
    };
  }
  return {
    ...moves,
    ...commonActions(player),
    hops: () => player.change({ hops: !place.hops }),
    tour: () => (place.tour === NO_STOP ? player.visit(0) : player.change({ tour: NO_STOP })),
    more: () => player.more(!("more" in document.documentElement.dataset)),
    say: () => player.speech.toggle(),
    search: () => player.search(),
    breakHere: () => player.change({ breakpoints: toggleHere(player) }),
    breakpoints: () => openDialog(root, "breaks"),
    take: () => player.openMenu(),
    peak: () => player.seek(model.doc.memory?.ranks[place.rank]?.peak_step ?? clock.position),
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
