// The magnifier: the active unit on every rank, large, with the packets between them. Changes of a step are
// drawn when it begins, moving parts in every frame while it plays.

import { palette } from "#player/colours.js";
import { drawCall } from "#player/draw/calls.js";
import { Layer, watch } from "#player/draw/layer.js";
import { hit } from "#player/draw/layout.js";
import { drawLens, drawRowNames, headOf } from "#player/draw/lens.js";
import { layoutMagnifier, shownRanks, tileBox, wayOf } from "#player/draw/magnifierlayout.js";
import { MOST_LABELS, drawPacket, drawWays, label, signWidth } from "#player/draw/packets.js";
import { pointOn, progress } from "#player/draw/ring.js";
import { fontsFor, measurer, shorten } from "#player/draw/text.js";
import { tierPackets } from "#player/draw/tierways.js";
import { drawArriving } from "#player/draw/tiles.js";
import { magnify } from "#player/lens/magnify.js";
import { unitsOf } from "#player/lens/subject.js";
import { linkBetween } from "#player/model.js";
import { nameCell, namePacket, nameRank, nameTile } from "#player/naming/names.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { MagnifierLayout } from "#player/draw/magnifierlayout.js" */
/** @import { Moving } from "#player/draw/packets.js" */
/** @import { Fonts } from "#player/draw/text.js" */
/** @import { Magnified } from "#player/lens/magnify.js" */
/** @import { Region } from "#player/regions.js" */
/** @import { Scene } from "#player/scene.d.ts" */

/** @import { Coming } from "#player/draw/lens.js" */

export class Magnifier {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.still = new Layer(host);
    this.moving = new Layer(host);
    this.measure = measurer(this.still.ctx);
    this.changed = watch();
    this.movedTo = watch();
    /** @type {Magnified | null} */
    this.magnified = null;
    /** @type {MagnifierLayout | null} */
    this.layout = null;
    /** @type {Moving[]} */
    this.packets = [];
    /** @type {Coming[]} */
    this.coming = [];
    this.at = { x: 0, y: 0 };
  }

  /**
   * @param {Scene} scene
   * @param {number} width
   * @param {number} height
   */
  render(scene, width, height) {
    const { model, position, hops, theme, present, rank, isOver, tween } = scene;
    const changed = this.changed(model, position, hops, theme, present, rank, isOver, width, height, devicePixelRatio);
    if (changed) {
      this.prepare(scene, width, height);
    }
    if (this.movedTo(tween) || changed) {
      this.drawMoving(scene);
    }
  }

  /** @param {Scene} scene @param {number} width @param {number} height */
  prepare(scene, width, height) {
    const { model, document: doc, cells, position, hops, rank, present, theme, isOver } = scene;
    const fonts = fontsFor(present);
    const magnified = magnify(model, cells, position, hops, isOver);
    const { packets, rows, call } = magnified;
    const shown = shownRanks(model.numRanks, rank, packets);
    const gutter = Math.min(width * 0.25, Math.max(0, ...rows.map(({ label }) => this.measure(label, fonts.text))));
    const layout = layoutMagnifier({
      width,
      height,
      shown,
      numRanks: model.numRanks,
      numRows: rows.length,
      gutter,
      hasArcs: packets.length > 0 || call !== "",
      hasReturn: packets.length > 0,
      longest: Math.max(...shown.map((one) => this.measure(magnified.words[one], fonts.text))),
      fonts,
    });
    this.magnified = magnified;
    this.layout = layout;
    const share = shareOf(scene);
    const visible = packets
      .filter(({ from, to }) => layout.at.has(from) || layout.at.has(to))
      .map((packet) => ({ ...packet, way: wayOf(layout, packet.from, packet.to) }));
    /** @type {Map<number, number>} */
    const before = new Map();
    const [first, second] = layout.lenses;
    const pitch = second ? second.x - first.x : width;
    this.packets = [...visible, ...(isOver ? [] : tierPackets(doc, position, magnified, layout))].map((packet) => {
      const { from, to } = packet;
      const crosses = from >= 0 && to >= 0 && linkBetween(doc.run, doc.ranks[from], doc.ranks[to]) === "between nodes";
      const nth = before.get(from) ?? 0;
      before.set(from, nth + 1);
      // Packets in both directions between the same ranks rest nearer to their senders.
      const rest = visible.length > model.numRanks ? Math.min(0.44, 0.16 + 0.08 * nth) : 0.5;
      const signs = signWidth(packet.shards, share, fonts);
      /** @param {string} words */
      const widthOf = (words) => this.measure(words, fonts.monoStrong) + 12 + signs;
      const ends = from >= 0 && to >= 0 ? `${doc.ranks[from]}→${doc.ranks[to]} ` : "";
      const text = visible.length > model.numRanks ? packet.text : label(packet, ends, first.w, pitch, widthOf);
      return { ...packet, text, crosses, rest, share, width: widthOf(text) };
    });
    this.still.fit(width, height);
    this.moving.fit(width, height);
    this.drawStill(scene, palette(theme), fonts);
  }

  /** @param {Scene} scene @param {Palette} colours @param {Fonts} fonts */
  drawStill(scene, colours, fonts) {
    const { ctx, scale } = this.still;
    const magnified = /** @type {Magnified} */ (this.magnified);
    const layout = /** @type {MagnifierLayout} */ (this.layout);
    const { measure } = this;
    const { captionY, lenses } = layout;
    const { width, height } = this.still;
    ctx.fillStyle = colours.inset;
    ctx.strokeStyle = colours.line;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.roundRect(0.5, 0.5, width - 1, height - 1, 10);
    ctx.fill();
    ctx.stroke();
    if (!Number.isNaN(captionY)) {
      ctx.font = fonts.text;
      ctx.fillStyle = colours.muted;
      ctx.fillText(shorten(magnified.caption, width - 24, (text) => measure(text, fonts.text)), 12, captionY);
    }
    this.coming = [];
    const isBrief = lenses.some((lens) => !headOf(scene, lens, fonts, measure).fits); // all alike
    for (const lens of lenses) {
      this.coming.push(...drawLens(this.still, scene, lens, { magnified, layout, packets: this.packets, isBrief }, colours, fonts, measure));
    }
    if (layout.gutter > 0) {
      drawRowNames(ctx, magnified, layout, colours, fonts);
    }
    drawWays(ctx, this.packets, colours);
    if (magnified.call) {
      drawCall(ctx, scene, magnified.call, layout, colours, fonts, measure(magnified.call, fonts.strong));
    }
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
  }

  /** @param {Scene} scene */
  drawMoving({ document: doc, position, tween, theme, present }) {
    const { ctx, scale } = this.moving;
    const { start_ns, end_ns } = doc.steps[position];
    const colours = palette(theme);
    const fonts = fontsFor(present);
    const { packetHeight } = /** @type {MagnifierLayout} */ (this.layout);
    this.moving.clear();
    for (const { tile, box, packet } of this.coming) {
      const part = packet ? progress(packet, start_ns, end_ns, tween) : (tween ?? 0.5);
      drawArriving(ctx, colours, scale, tile, box, part, fonts, this.measure);
    }
    const labelled = this.packets.length <= MOST_LABELS;
    for (const packet of this.packets) {
      pointOn(packet.way, tween === null ? packet.rest : progress(packet, start_ns, end_ns, tween), this.at);
      drawPacket(ctx, packet, this.at, labelled ? packetHeight : 10, labelled, this.still.width, colours, fonts);
    }
    ctx.textAlign = "left";
  }

  /** @param {number} x @param {number} y */
  hit(x, y) {
    const lenses = this.layout?.lenses ?? [];
    const boxes = lenses.map((lens) => ({ x: lens.x, y: lens.nameY - 20, w: lens.w, h: lens.wordsY - lens.nameY + 40 }));
    return lenses[hit(boxes, x, y)]?.rank ?? -1;
  }

  /** @param {Scene} scene @param {number} x @param {number} y @returns {Region | null} */
  find(scene, x, y) {
    const { model, cells, position, hops, tween } = scene;
    const { start_ns, end_ns } = model.doc.steps[position];
    const high = (this.layout?.packetHeight ?? 0) / 2;
    for (const packet of this.packets) {
      const { x: middle, y: centre } = pointOn(packet.way, tween === null ? packet.rest : progress(packet, start_ns, end_ns, tween), { x: 0, y: 0 });
      if (Math.abs(x - middle) <= packet.width / 2 && Math.abs(y - centre) <= high) {
        const box = { x: middle - packet.width / 2, y: centre - high, w: packet.width, h: 2 * high };
        return { box, named: namePacket(model, position, packet) };
      }
    }
    const lens = this.layout?.lenses.find(({ rank }) => rank === this.hit(x, y));
    if (!lens) {
      return null;
    }
    const { rank, rows } = lens;
    const row = hit(rows, x, y);
    if (row < 0 || !this.magnified) {
      return { box: { x: lens.x, y: lens.nameY - 18, w: lens.w, h: 24 }, named: nameRank(model, position, rank) };
    }
    const { label, states, units: own } = this.magnified.rows[row];
    if (states.length === 0) {
      return { box: rows[row], named: nameRank(model, position, rank) };
    }
    const shard = Math.min(model.numShards - 1, Math.floor(((x - rows[row].x) / rows[row].w) * model.numShards));
    const units = own ?? unitsOf(model, cells, position, hops);
    const isOne = units.length === 1 && states.length === 1;
    const named = isOne
      ? nameCell(model, cells, { rank, state: states[0], unit: units[0], shard })
      : nameTile(model, rank, label, units, this.magnified.tiles[rank][row][shard]);
    return { box: tileBox(rows[row], shard, model.numShards), named };
  }

  /** Each packet, each rank and each of its tiles. @returns {[number, number][]} */
  spots() {
    const { magnified, layout } = this;
    const packets = this.packets.map(({ way, rest }) => {
      const { x, y } = pointOn(way, rest, { x: 0, y: 0 });
      return /** @type {[number, number]} */ ([x, y]);
    });
    const tiles = (layout?.lenses ?? []).flatMap(({ rank, x, nameY, rows }) => [
      /** @type {[number, number]} */ ([x + 4, nameY - 4]),
      ...rows.flatMap((row, i) => (magnified?.tiles[rank][i] ?? []).map(({ shard }, _, { length }) =>
        /** @type {[number, number]} */ ([row.x + ((shard + 0.4) * row.w) / length, row.y + row.h / 2]),
      )),
    ]);
    return [...packets, ...tiles];
  }

  remove() {
    this.still.remove();
    this.moving.remove();
  }
}

/** How large an element of a step's packets is beside one that is not quantized. @param {Scene} scene */
function shareOf({ document: doc, position }) {
  const bits = doc.collectives[doc.steps[position].collective]?.bits ?? 0;
  return bits > 0 && doc.run.element_bytes > 0 ? Math.min(1, bits / (8 * doc.run.element_bytes)) : 1;
}
