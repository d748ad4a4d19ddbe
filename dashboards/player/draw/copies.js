// Packets between the tiers of a card: what a rank copies moves from the state that it leaves to the
// one that it becomes, past what lies between. Drawn in every frame while such a step is shown.

import { inkOn, palette, shardColour } from "#player/colours.js";
import { Layer, watch } from "#player/draw/layer.js";
import { ease } from "#player/draw/ring.js";
import { activeStates } from "#player/draw/moment.js";
import { fontsFor, measurer } from "#player/draw/text.js";
import { formatBytes } from "#player/format.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { CardLayout } from "#player/draw/layout.js" */
/** @import { Fonts } from "#player/draw/text.js" */
/** @import { Scene } from "#player/scene.d.ts" */
/** @import { State, Step, Tier } from "#player/types.d.ts" */

/**
 * What one rank copies in a step.
 * @typedef {object} CopyPacket
 * @property {number} rank
 * @property {number} bytes
 * @property {number} x
 * @property {number} from height at which it begins
 * @property {number} to
 * @property {number} start_ns
 * @property {number} end_ns
 */

/**
 * The packets of a copy. Pure.
 * @param {Step} step
 * @param {readonly State[]} states
 * @param {CardLayout} layout
 * @param {number} numShards
 * @param {readonly number[]} ranks global
 * @returns {CopyPacket[]}
 */
export function packetsOf(step, states, layout, numShards, ranks) {
  const active = activeStates(step, states);
  const { cards, columns, pad } = layout;
  /** @param {Tier | ""} tier */
  const height = (tier) => heightOf(tier, active, states, layout);
  const [from, to] = [height(step.origin), height(step.target)];
  /** @type {CopyPacket[]} */
  const packets = [];
  for (let i = 0; i < step.copies.length; i += 4) {
    const [rank, bytes, start_ns, end_ns] = step.copies.slice(i, i + 4);
    const card = cards[rank];
    const column = step.unit >= 0 && columns.length > 0 ? columns[step.unit] : { x: 0, w: card.w - 2 * pad };
    const shard = (ranks[rank] + 0.5) / numShards;
    packets.push({ rank, bytes, start_ns, end_ns, from, to, x: card.x + pad + column.x + column.w * shard });
  }
  return packets;
}

/**
 * The middle of what a copy leaves or becomes in a tier; where no state of it is drawn, the card's
 * lower edge.
 * @param {Tier | ""} tier
 * @param {readonly number[]} active
 * @param {readonly State[]} states
 * @param {CardLayout} layout
 */
function heightOf(tier, active, states, { bands, cards }) {
  const own = active.filter((s) => states[s].tier === tier);
  const shown = own.length > 0 ? own : [...states.keys()].filter((s) => states[s].tier === tier);
  if (shown.length === 0) {
    return cards[0].y + cards[0].h;
  }
  const [first, last] = [bands[shown[0]], bands[shown[shown.length - 1]]];
  return (first.y + last.y + last.h) / 2;
}

export class Copies {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.layer = new Layer(host);
    this.measure = measurer(this.layer.ctx);
    this.changed = watch();
    this.movedTo = watch();
    /** @type {CopyPacket[]} */
    this.packets = [];
  }

  /**
   * @param {Scene} scene
   * @param {CardLayout} layout
   * @param {number} width
   * @param {number} height
   */
  render(scene, layout, width, height) {
    const { document: doc, model, position, theme, present, tween } = scene;
    const step = doc.steps[position];
    const changed = this.changed(layout, theme, present, position, width, height);
    if (changed) {
      if (this.packets.length > 0 || step.copies.length > 0) {
        this.layer.fit(width, height);
      }
      this.packets = packetsOf(step, doc.states, layout, model.numShards, doc.ranks);
    }
    const moved = this.movedTo(tween, position);
    if (this.packets.length > 0 && (changed || moved)) {
      this.draw(step, tween, layout, doc.ranks, palette(theme), fontsFor(present));
    }
  }

  /**
   * @param {Step} step
   * @param {number | null} tween
   * @param {CardLayout} layout
   * @param {readonly number[]} ranks
   * @param {Palette} colours
   * @param {Fonts} fonts
   */
  draw({ start_ns, end_ns }, tween, { cards, labelHeight: h }, ranks, colours, fonts) {
    const { ctx } = this.layer;
    this.layer.clear();
    ctx.font = fonts.monoStrong;
    ctx.textAlign = "center";
    for (const packet of this.packets) {
      const card = cards[packet.rank];
      const text = formatBytes(packet.bytes);
      const w = Math.min(card.w - 4, this.measure(text, fonts.monoStrong) + 12);
      const x = Math.max(card.x + w / 2 + 2, Math.min(card.x + card.w - w / 2 - 2, packet.x));
      drawWay(ctx, x, packet.from, packet.to, colours);
      const y = packet.from + (packet.to - packet.from) * partOf(packet, start_ns, end_ns, tween);
      const fill = shardColour(colours, ranks[packet.rank]);
      ctx.fillStyle = fill;
      ctx.strokeStyle = colours.card;
      ctx.lineWidth = 3;
      ctx.beginPath();
      ctx.roundRect(x - w / 2, y - h / 2, w, h, 5);
      ctx.stroke();
      ctx.fill();
      ctx.fillStyle = inkOn(fill);
      ctx.fillText(text, x, y + fonts.size * 0.36);
    }
    ctx.textAlign = "left";
  }

  remove() {
    this.layer.remove();
  }
}

/** How far a copy has come, 0 to 1. @param {CopyPacket} packet @param {number} start_ns of the step
 *  @param {number} end_ns @param {number | null} tween */
export function partOf(packet, start_ns, end_ns, tween) {
  if (tween === null) {
    return 0.5;
  }
  const span = packet.end_ns - packet.start_ns;
  const now = start_ns + tween * (end_ns - start_ns);
  return ease(span > 0 ? Math.min(1, Math.max(0, (now - packet.start_ns) / span)) : tween);
}

/** An arrow from where it begins to where it ends. @param {CanvasRenderingContext2D} ctx
 *  @param {number} x @param {number} from @param {number} to @param {Palette} colours */
function drawWay(ctx, x, from, to, colours) {
  const way = Math.sign(to - from);
  for (const [stroke, width] of /** @type {const} */ ([[colours.card, 6], [colours.strong, 2.5]])) {
    ctx.strokeStyle = stroke;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.moveTo(x, from);
    ctx.lineTo(x, to - way * 4);
    ctx.stroke();
  }
  ctx.fillStyle = colours.strong;
  ctx.beginPath();
  ctx.moveTo(x, to + way * 2);
  ctx.lineTo(x - 6, to - way * 9);
  ctx.lineTo(x + 6, to - way * 9);
  ctx.fill();
}
