// The ring above the cards: arcs from sender to receiver and the packets on them. The only part of
// the stage that is drawn in every frame.

import { inkOn, palette, shardColour } from "#player/colours.js";
import { Layer, watch } from "#player/draw/layer.js";
import { arcOf, edgesOf, pointOn, progress } from "#player/draw/ring.js";
import { fontsFor, measurer } from "#player/draw/text.js";
import { formatBytes } from "#player/format.js";
import { linkBetween } from "#player/model.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { CardLayout } from "#player/draw/layout.js" */
/** @import { Arc, Edge } from "#player/draw/ring.js" */
/** @import { Fonts } from "#player/draw/text.js" */
/** @import { Scene } from "#player/scene.d.ts" */
/** @import { ReplayDocument, Step } from "#player/types.d.ts" */

/** With more packets than this there is no room for their bytes. */
const MOST_LABELS = 16;

/**
 * A packet on its arc.
 * @typedef {object} Packet
 * @property {Edge} edge
 * @property {Arc} arc
 * @property {string} text
 * @property {number} width
 * @property {string} fill
 * @property {string} ink
 * @property {boolean} crosses from one node to another
 */

/** How arcs between nodes are dashed; those within a node are not. */
export const CROSSING = [9, 6];

export class Flow {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.arcs = new Layer(host);
    this.moving = new Layer(host);
    this.measure = measurer(this.moving.ctx);
    /** @type {Packet[]} */
    this.packets = [];
    this.changed = watch();
    this.movedTo = watch();
    this.at = { x: 0, y: 0 };
    /** @type {number[]} where each packet stands at rest: those of an exchange near their senders */
    this.rests = [];
    /** Of quantized packets, how large an element is beside one that is not; else 1. */
    this.share = 1;
  }

  /**
   * @param {Scene} scene
   * @param {CardLayout} layout
   * @param {number} width
   */
  render(scene, layout, width) {
    const { document: doc, position, theme, present, tween } = scene;
    const step = doc.steps[position];
    const colours = palette(theme);
    const fonts = fontsFor(present);
    const changed = this.changed(layout, theme, present, position);
    if (changed) {
      this.arcs.fit(width, layout.ringHeight);
      this.moving.fit(width, layout.ringHeight);
      this.share = shareOf(doc, step);
      this.packets = this.prepare(scene, layout, colours, fonts);
      this.rests = restsOf(this.packets, step.op);
      drawArcs(this.arcs.ctx, this.packets, colours);
      if (this.packets.length === 0 && step.sent.length > 0) {
        drawNative(this.arcs.ctx, scene, layout, colours, fonts, this.measure(step.op, fonts.strong));
      }
    }
    const moved = this.movedTo(tween, position);
    if (this.packets.length > 0 && (changed || moved)) {
      this.drawPackets(step.start_ns, step.end_ns, tween, layout, fonts, colours);
    }
  }

  /**
   * @param {Scene} scene
   * @param {CardLayout} layout
   * @param {Palette} colours
   * @param {Fonts} fonts
   * @returns {Packet[]}
   */
  prepare({ document: doc, position, model }, layout, colours, fonts) {
    const { cards, ringHeight, labelHeight } = layout;
    const pitch = cards.length > 1 ? cards[1].x - cards[0].x : cards[0].w;
    const high = labelHeight / 2 + 1;
    return edgesOf(doc.steps[position])
      .filter(({ from, to }) => from >= 0 || to >= 0)
      .map((edge) => {
        const text = formatBytes(edge.bytes);
        const fill = shardColour(colours, edge.shard);
        const arc = arcOf({
          from: edge.from,
          to: edge.to,
          numRanks: model.numRanks,
          centre: (rank) => cards[rank].x + cards[rank].w / 2,
          pitch,
          base: ringHeight - 7,
          low: Math.min(ringHeight - labelHeight, high + labelHeight + 12),
          high,
        });
        const crosses =
          edge.from >= 0 && edge.to >= 0 &&
          linkBetween(doc.run, doc.ranks[edge.from], doc.ranks[edge.to]) === "between nodes";
        return { edge, arc, text, width: this.measure(text, fonts.monoStrong) + 12, fill, ink: inkOn(fill), crosses };
      });
  }

  /**
   * @param {number} start_ns
   * @param {number} end_ns
   * @param {number | null} tween
   * @param {CardLayout} layout
   * @param {Fonts} fonts
   * @param {Palette} colours
   */
  drawPackets(start_ns, end_ns, tween, { labelHeight, ringHeight }, fonts, colours) {
    const { ctx } = this.moving;
    const { at } = this;
    const labelled = this.packets.length <= MOST_LABELS;
    this.moving.clear();
    ctx.font = fonts.monoStrong;
    ctx.textAlign = "center";
    ctx.strokeStyle = colours.card;
    ctx.lineWidth = 3;
    for (const [k, packet] of this.packets.entries()) {
      const { edge, arc, text, width, fill, ink } = packet;
      pointOn(arc, tween === null ? this.rests[k] : progress(edge, start_ns, end_ns, tween), at);
      const w = labelled ? width : 10;
      const h = labelled ? labelHeight : 10;
      const y = Math.min(ringHeight - h / 2 - 2, Math.max(h / 2 + 1, at.y));
      if (labelled && this.share < 1) {
        drawSmall(ctx, packet, at.x, y, h, this.share, fonts, colours);
        continue;
      }
      ctx.fillStyle = fill;
      ctx.beginPath();
      ctx.roundRect(at.x - w / 2, y - h / 2, w, h, 5);
      ctx.stroke();
      ctx.fill();
      if (labelled) {
        ctx.fillStyle = ink;
        ctx.fillText(text, at.x, y + fonts.size * 0.36);
      }
    }
  }

  remove() {
    this.arcs.remove();
    this.moving.remove();
  }
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {readonly Packet[]} packets
 * @param {Palette} colours
 */
function drawArcs(ctx, packets, colours) {
  ctx.strokeStyle = colours.arc;
  ctx.fillStyle = colours.muted;
  const many = packets.length > MOST_LABELS;
  ctx.lineWidth = many ? 1 : 2.5;
  for (const { arc, crosses } of packets) {
    ctx.strokeStyle = crosses ? colours.wait : colours.arc;
    ctx.setLineDash(crosses ? CROSSING : []);
    ctx.beginPath();
    ctx.moveTo(arc[0], arc[1]);
    ctx.bezierCurveTo(arc[2], arc[3], arc[4], arc[5], arc[6], arc[7]);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  for (const { arc, edge } of packets) {
    if (many || edge.to < 0) {
      continue;
    }
    const angle = Math.atan2(arc[7] - arc[5], arc[6] - arc[4]);
    ctx.save();
    ctx.translate(arc[6], arc[7] + 2);
    ctx.rotate(angle);
    ctx.beginPath();
    ctx.moveTo(1, 0);
    ctx.lineTo(-11, -5.5);
    ctx.lineTo(-11, 5.5);
    ctx.fill();
    ctx.restore();
  }
}

/** Where packets stand at rest: half-way; those that go both ways between the same ranks, as in an
 *  all-to-all, nearer to their senders, each at another place. @param {readonly Packet[]} packets
 *  @param {string} op */
export function restsOf(packets, op) {
  /** @type {Map<number, number>} */
  const sent = new Map();
  return packets.map(({ edge }) => {
    const before = sent.get(edge.from) ?? 0;
    sent.set(edge.from, before + 1);
    return op === "all-to-all" ? Math.min(0.44, 0.16 + 0.08 * before) : 0.5;
  });
}

/** How large an element of a step's packets is beside one that is not quantized. @param {ReplayDocument} doc
 *  @param {Step} step */
export function shareOf(doc, step) {
  const bits = doc.collectives[step.collective]?.bits ?? 0;
  return bits > 0 && doc.run.element_bytes > 0 ? Math.min(1, bits / (8 * doc.run.element_bytes)) : 1;
}

/**
 * A packet of quantized elements: its area is as much smaller as they are, its bytes stand beside it.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Packet} packet
 * @param {number} x
 * @param {number} y
 * @param {number} h of a packet that is not quantized
 * @param {number} share
 * @param {Fonts} fonts
 * @param {Palette} colours
 */
function drawSmall(ctx, { text, width, fill }, x, y, h, share, fonts, colours) {
  const side = Math.max(5, Math.round((h - 4) * Math.sqrt(share)));
  const w = width + side + 4;
  ctx.strokeStyle = colours.card;
  ctx.lineWidth = 3;
  ctx.fillStyle = colours.card;
  ctx.beginPath();
  ctx.roundRect(x - w / 2, y - h / 2, w, h, 5);
  ctx.stroke();
  ctx.fill();
  ctx.fillStyle = fill;
  ctx.beginPath();
  ctx.roundRect(x - w / 2 + 4, y - side / 2, side, side, 2);
  ctx.fill();
  ctx.fillStyle = colours.text;
  ctx.fillText(text, x + side / 2 + 1, y + fonts.size * 0.36);
}

/**
 * A call of which no messages were recorded: who took part, and what it was. No packets are made up.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Scene} scene
 * @param {CardLayout} layout
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {number} opWidth
 */
function drawNative(ctx, { document: doc, position }, { cards, ringHeight }, colours, fonts, opWidth) {
  const step = doc.steps[position];
  const centres = step.ranks.map((r) => cards[r].x + cards[r].w / 2);
  if (centres.length === 0) {
    return;
  }
  const y = Math.round(ringHeight * 0.55);
  const [left, right] = [Math.min(...centres), Math.max(...centres)];
  ctx.strokeStyle = colours.wait;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.moveTo(left, y);
  ctx.lineTo(right, y);
  for (const x of centres) {
    ctx.moveTo(x, y);
    ctx.lineTo(x, ringHeight - 4);
  }
  ctx.stroke();
  const middle = (left + right) / 2;
  ctx.fillStyle = colours.card;
  ctx.fillRect(middle - opWidth / 2 - 10, y - fonts.size, opWidth + 20, 2 * fonts.size);
  ctx.font = fonts.strong;
  ctx.textAlign = "center";
  ctx.fillStyle = colours.text;
  ctx.fillText(step.op, middle, y + fonts.size * 0.36);
  ctx.font = fonts.text;
  ctx.fillStyle = colours.muted;
  ctx.fillText("its messages were not recorded", middle, y - fonts.size - 4);
}
