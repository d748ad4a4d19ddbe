// The stage: rank cards with the ring above them, or strips where there are many ranks.

import { Cards } from "#player/draw/cards.js";
import { Copies } from "#player/draw/copies.js";
import { Flow } from "#player/draw/flow.js";
import { pointIn } from "#player/draw/layer.js";
import { MAX_CARDS } from "#player/draw/layout.js";
import { Strips } from "#player/draw/strips.js";

/** @import { View } from "#player/draw/layer.js" */
/** @import { Model, Scene, ViewCallbacks } from "#player/scene.d.ts" */

/** @implements {View} */
export class Stage {
  /** @param {HTMLElement} host @param {ViewCallbacks} callbacks */
  constructor(host, callbacks) {
    this.host = host;
    /** @type {Cards | null} */
    this.cards = null;
    /** @type {Flow | null} */
    this.flow = null;
    this.copies = null;
    /** @type {Copies | null} */
    this.copies = null;
    /** @type {Strips | null} */
    this.strips = null;
    /** @type {Model | null} */
    this.model = null;
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
    const { x, y } = pointIn(event, this.host);
    return (this.cards ?? this.strips)?.hit(x, y) ?? -1;
  }

  /** @param {Scene} scene */
  render(scene) {
    if (scene.model !== this.model) {
      this.clear();
      this.model = scene.model;
      if (scene.model.numRanks <= MAX_CARDS) {
        this.cards = new Cards(this.host);
        this.flow = new Flow(this.host);
        this.copies = new Copies(this.host);
      } else {
        this.strips = new Strips(this.host);
      }
    }
    if (this.cards && this.flow) {
      const layout = this.cards.render(scene, this.width, this.height);
      this.flow.render(scene, layout, this.width);
      this.copies?.render(scene, layout, this.width, this.height);
    }
    this.strips?.render(scene, this.width, this.height);
  }

  resize() {
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
  }

  clear() {
    this.cards?.remove();
    this.flow?.remove();
    this.copies?.remove();
    this.strips?.remove();
    this.cards = null;
    this.flow = null;
    this.strips = null;
  }

  destroy() {
    this.listening.abort();
    this.clear();
    this.model = null;
  }
}
