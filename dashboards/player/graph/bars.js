// Draws the lanes of the graph: the visible part, and of bars thinner than a pixel only as many as there are
// pixels.

import { mix, inkOn, shardColour } from "#player/colours.js";
import { numberOf, unitLabel } from "#player/draw/text.js";
import { textures } from "#player/draw/textures.js";
import { trackBox } from "#player/graph/layout.js";
import { COLLECTIVES, DISK, MESSAGES, PROGRAM, TRACKS, firstIn, unitOf } from "#player/graph/model.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { TimeWindow } from "#player/draw/lanes.js" */
/** @import { Layer } from "#player/draw/layer.js" */
/** @import { Fonts, Measure } from "#player/draw/text.js" */
/** @import { Accents } from "#player/graph/accents.js" */
/** @import { GraphLanes } from "#player/graph/layout.js" */
/** @import { GraphModel } from "#player/graph/model.js" */

/** Opacity: of the critical path, of events with slack, of filtered ones. */
const FULL = 1;
const PALE = 0.5;
const GHOST = 0.1;
const STRENGTHS = [FULL, PALE, GHOST];
/** The kinds of bars; for a call, before and after the last rank's arrival. */
const SORTS = ["compute", "wait", "arrived", "moves", "send", "receive", "copy", "mark"];

/**
 * @typedef {object} Picture
 * @property {GraphModel} model
 * @property {GraphLanes} lanes
 * @property {TimeWindow} shown
 * @property {Uint8Array} passed
 * @property {boolean} filtered something does not pass
 * @property {Palette} colours
 * @property {Accents} accents
 * @property {Fonts} fonts
 * @property {Measure} measure
 */

/** @param {Layer} layer @param {Picture} picture */
export function drawLanes(layer, picture) {
  const { lanes } = picture;
  const brush = new Brush(layer, picture);
  for (let rank = lanes.first; rank < lanes.first + lanes.count; rank += 1) {
    for (const track of [PROGRAM, COLLECTIVES, MESSAGES]) {
      if (track !== MESSAGES || lanes.messages) {
        brush.track(rank, track);
      }
    }
    lanes.copyTracks.forEach((track) => brush.track(rank, track));
  }
}

class Brush {
  /** @param {Layer} layer @param {Picture} picture */
  constructor({ ctx, scale }, picture) {
    this.ctx = ctx;
    this.scale = scale;
    this.picture = picture;
    this.left = picture.lanes.left;
    this.right = picture.lanes.left + picture.lanes.width;
    /** @type {Map<number, string | CanvasPattern>} */
    this.fills = new Map();
    /** Up to where something thin is drawn already. */
    this.drawn = -Infinity;
    this.hasPath = picture.model.doc.path !== null;
  }

  /** @param {number} rank @param {number} track */
  track(rank, track) {
    const { model, lanes, shown } = this.picture;
    const own = model.tracks[rank * TRACKS + track];
    const { y, h } = trackBox(lanes, rank, track);
    this.drawn = -Infinity;
    for (let place = firstIn(own, shown.from); place < own.nodes.length; place += 1) {
      const node = own.nodes[place];
      if (model.start[node] > shown.to) {
        break;
      }
      if (model.end[node] >= shown.from) {
        this.node(node, y, h, this.free(own.nodes, place));
      }
    }
  }

  /** Until when nothing that begins later is drawn over a node. @param {ArrayLike<number>} nodes @param {number} place */
  free(nodes, place) {
    const { model } = this.picture;
    for (let next = place + 1; next < nodes.length; next += 1) {
      if (model.kinds[nodes[next]] !== "collective") {
        return model.start[nodes[next]];
      }
    }
    return Infinity;
  }

  /** @param {number} node @param {number} y @param {number} h @param {number} free until when it has room for a name */
  node(node, y, h, free) {
    const { model, lanes } = this.picture;
    const kind = model.kinds[node];
    const [start, end] = [model.start[node], model.end[node]];
    if (kind === "call") {
      const moving = model.moving[node];
      if (moving > start) {
        this.bar(node, start, moving, y, h, "arrived");
      }
      this.bar(node, moving, end, y, h, "moves");
      this.label(node, moving, Math.min(end, free), y, h);
    } else if (kind === "phase") {
      this.tick(node, y, lanes.rowHeight >= 40 ? h + lanes.seam + lanes.communication + lanes.copies : h);
    } else if (kind === "send" || kind === "receive") {
      this.bar(node, start, end, kind === "send" ? y + 2 : y + h / 2 + 1, Math.max(2, h / 2 - 1), kind);
    } else if (kind !== "collective") {
      // a collective is drawn on each rank as that rank's call
      this.bar(node, start, end, y, h, kind);
      if (kind === "compute" || kind === "copy") {
        this.label(node, start, Math.min(end, free), y, h);
      }
    }
  }

  /**
   * @param {number} node
   * @param {number} start
   * @param {number} end
   * @param {number} y
   * @param {number} h
   * @param {string} sort
   */
  bar(node, start, end, y, h, sort) {
    const { lanes, shown } = this.picture;
    const x = Math.max(this.left, shown.x(start, lanes));
    const right = Math.min(this.right, shown.x(end, lanes));
    const w = Math.max(1, right - x - (right - x > 3 ? 0.75 : 0));
    if (right < this.left || x > this.right || (w <= 1 && x + w <= this.drawn)) {
      return; // out of sight, or of a pixel that has something in it already
    }
    this.drawn = w <= 1 ? Math.ceil(x + w) : -Infinity;
    this.ctx.fillStyle = this.fill(node, sort);
    if (h >= 8 && w >= 6) {
      this.ctx.beginPath();
      this.ctx.roundRect(x, y, w, h, 2);
      this.ctx.fill();
    } else {
      this.ctx.fillRect(x, y, w, h);
    }
  }

  /** A phase begins. @param {number} node @param {number} y @param {number} h */
  tick(node, y, h) {
    const { model, lanes, shown, passed, colours } = this.picture;
    const x = shown.x(model.start[node], lanes);
    if (x >= this.left && x <= this.right && passed[node]) {
      this.ctx.fillStyle = colours.phases[this.phase(node)];
      this.ctx.fillRect(x - 1, y, 2, h);
    }
  }

  /** The label of a bar, if there is room. @param {number} node @param {number} start @param {number} end
   *  @param {number} y @param {number} h */
  label(node, start, end, y, h) {
    const { lanes, shown, model, passed, fonts, measure } = this.picture;
    const x = Math.max(this.left, shown.x(start, lanes));
    const room = Math.min(this.right, shown.x(end, lanes)) - x - 10;
    if (h < fonts.size + 1 || room < fonts.size / 2 || !passed[node]) {
      return;
    }
    const name = unitLabel(unitOf(model, node));
    const text = [name, numberOf(name)].find((one) => measure(one, fonts.text) <= room);
    if (text) {
      this.ctx.font = fonts.text;
      this.ctx.fillStyle = inkOn(this.solid(node, model.kinds[node] === "call" ? "moves" : model.kinds[node]));
      this.ctx.fillText(text, x + 5, y + h / 2 + fonts.size * 0.36);
    }
  }

  /** @param {number} node */
  phase(node) {
    const { doc } = this.picture.model;
    return doc.phases[doc.nodes.phase[node]];
  }

  /** How much of its colour a node keeps. @param {number} node */
  strength(node) {
    const { model, passed } = this.picture;
    if (!passed[node]) {
      return GHOST;
    }
    return !this.hasPath || model.onPath[node] || this.isOfPath(node) ? FULL : PALE;
  }

  /** Whether a node is a call of a collective on the path. @param {number} node */
  isOfPath(node) {
    const { model } = this.picture;
    return model.kinds[node] === "call" && model.pathCollectives.has(model.doc.nodes.collective[node]);
  }

  /** The colour of a node without its texture. @param {number} node @param {string} sort */
  solid(node, sort) {
    const { model, colours } = this.picture;
    const own =
      sort === "compute"
        ? colours.phases[this.phase(node)]
        : sort === "send" || sort === "receive"
          ? shardColour(colours, model.doc.nodes.shard[node])
          : sort === "copy"
            ? colours.copies[model.track[node] === DISK ? 1 : 0]
            : colours.communication[this.phase(node)];
    return mix(colours.card, own, this.strength(node));
  }

  /** @param {number} node @param {string} sort */
  fill(node, sort) {
    const { colours } = this.picture;
    const { phase, shard } = this.picture.model.doc.nodes;
    const own = sort === "send" || sort === "receive" ? shard[node] + 1 : sort === "copy" ? this.picture.model.track[node] : 0;
    const strength = STRENGTHS.indexOf(this.strength(node));
    const key = ((own * 8 + phase[node]) * STRENGTHS.length + strength) * SORTS.length + SORTS.indexOf(sort);
    let fill = this.fills.get(key);
    if (fill === undefined) {
      fill = this.make(node, sort, colours);
      this.fills.set(key, fill);
    }
    return fill;
  }

  /** @param {number} node @param {string} sort @param {Palette} colours */
  make(node, sort, colours) {
    if (sort === "wait") {
      const ground = mix(colours.card, colours.wait, GHOST);
      const ink = mix(colours.card, colours.wait, this.picture.filtered ? 1 : 0.6);
      return this.strength(node) === GHOST ? ground : textures.get(this.ctx, "wait", ink, ground, this.scale);
    }
    const solid = this.solid(node, sort);
    return sort === "arrived" && this.strength(node) !== GHOST
      ? textures.get(this.ctx, "dense", mix(colours.card, colours.phases[this.phase(node)], this.strength(node)), mix(colours.card, solid, 0.25), this.scale)
      : solid;
  }
}
