// The stage: the magnifier with the active unit, below it the whole model, as rank cards or, of many
// ranks, as strips. While presenting, the magnifier alone.

import { Cards } from "#player/draw/cards.js";
import { pointIn } from "#player/draw/layer.js";
import { MAX_CARDS, leastHeight, nodesOf, tightHeight } from "#player/draw/layout.js";
import { Magnifier } from "#player/draw/magnifier.js";
import { Strips } from "#player/draw/strips.js";
import { fontsFor } from "#player/draw/text.js";

/** @import { View } from "#player/draw/layer.js" */
/** @import { Region } from "#player/regions.js" */
/** @import { Model, Scene, ViewCallbacks } from "#player/scene.d.ts" */

/** The part of the stage's height that the whole model has, and no more pixels than these. */
const WHOLE = { cards: 0.36, strips: 0.5, tallest: 0.46, most: 270 };

/** @implements {View} */
export class Stage {
  /** @param {HTMLElement} host @param {ViewCallbacks} callbacks */
  constructor(host, callbacks) {
    this.host = host;
    this.upper = part(host);
    this.lower = part(host);
    /** @type {Magnifier | null} */
    this.magnifier = null;
    /** @type {Cards | Strips | null} */
    this.whole = null;
    /** @type {Model | null} */
    this.model = null;
    /** @type {Scene | null} */
    this.scene = null;
    this.width = 0;
    this.height = 0;
    this.listening = new AbortController();
    const { signal } = this.listening;
    host.addEventListener("click", (event) => {
      const rank = this.rankAt(event);
      if (rank >= 0) {
        callbacks.onSelectRank(rank);
      }
    }, { signal });
    host.addEventListener("pointermove", (event) => {
      host.style.cursor = this.rankAt(event) >= 0 ? "pointer" : "";
    }, { signal });
    this.resize();
  }

  /** @param {MouseEvent} event */
  rankAt(event) {
    const above = pointIn(event, this.upper);
    if (above.y < this.upper.clientHeight) {
      return this.magnifier?.hit(above.x, above.y) ?? -1;
    }
    const { x, y } = pointIn(event, this.lower);
    return this.whole?.hit(x, y) ?? -1;
  }

  /** @param {Scene} scene */
  render(scene) {
    this.scene = scene;
    if (scene.model !== this.model) {
      this.clear();
      this.model = scene.model;
      this.magnifier = new Magnifier(this.upper);
      this.whole = scene.model.numRanks <= MAX_CARDS ? new Cards(this.lower) : new Strips(this.lower);
    }
    const below = this.heightBelow(scene);
    const above = this.height - below;
    this.upper.style.height = `${below > 0 ? above - GAP : above}px`;
    this.lower.style.top = `${above}px`;
    this.lower.style.height = `${below}px`;
    this.lower.hidden = below === 0;
    this.magnifier?.render(scene, this.width, below > 0 ? above - GAP : above);
    if (below > 0) {
      this.whole?.render(scene, this.width, below);
    }
  }

  /** Room of the whole model: none while presenting, nor where its states are not known. @param {Scene} scene */
  heightBelow({ present, model }) {
    if (present || model.numStates === 0) {
      return 0;
    }
    if (model.numRanks > MAX_CARDS) {
      return Math.round(this.height * WHOLE.strips);
    }
    const { states, ranks, run } = model.doc;
    const [numNodes, fonts] = [nodesOf(ranks, run.ranks_per_node).length, fontsFor(present)];
    const least = leastHeight(states, numNodes, fonts);
    const wanted = Math.min(WHOLE.most, this.height * WHOLE.cards);
    const tallest = Math.max(tightHeight(states, numNodes, fonts), this.height * WHOLE.tallest);
    return Math.round(Math.min(tallest, Math.max(least, wanted)));
  }

  /** The contents and layout of the magnifier. */
  shown() {
    const { magnified, layout } = this.magnifier ?? { magnified: null, layout: null };
    return { magnified, layout };
  }

  /** The region there: in the magnifier, or in the whole model below it. @param {number} x @param {number} y
   *  @returns {Region | null} */
  find(x, y) {
    const { scene } = this;
    const below = this.lower.hidden ? Infinity : this.lower.offsetTop;
    if (!scene) {
      return null;
    }
    if (y < below) {
      return this.magnifier?.find(scene, x, y) ?? null;
    }
    const found = this.whole?.find(scene, x, y - below) ?? null;
    return found && { ...found, box: { ...found.box, y: found.box.y + below } };
  }

  /** @returns {[number, number][]} */
  spots() {
    const { offsetTop, hidden } = this.lower;
    const below = hidden ? [] : this.whole?.spots() ?? [];
    return [...(this.magnifier?.spots() ?? []), ...below.map(([x, y]) => /** @type {[number, number]} */ ([x, y + offsetTop]))];
  }

  resize() {
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
  }

  clear() {
    this.magnifier?.remove();
    this.whole?.remove();
    this.magnifier = null;
    this.whole = null;
  }

  destroy() {
    this.listening.abort();
    this.clear();
    this.upper.remove();
    this.lower.remove();
    this.model = null;
  }
}

const GAP = 8;

/** A part of the stage with canvases of its own. @param {HTMLElement} host */
function part(host) {
  const made = document.createElement("div");
  made.style.cssText = "position:absolute;left:0;right:0;top:0";
  host.append(made);
  return made;
}
