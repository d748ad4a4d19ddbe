// Where everything of the stage lies: cards, bands, unit columns, the room of the ring. Pure.

import { shortRole } from "#player/draw/stack.js";
import { named, say } from "#player/words.js";

/** @import { Fonts, Measure } from "#player/draw/text.js" */
/** @import { State, Unit } from "#player/types.d.ts" */

/** More ranks are folded to strips. */
export const MAX_CARDS = 8;

const LEAST_BAND = 11;
const MOST_PER_BYTE = 18;

/** @typedef {{x: number, y: number, w: number, h: number}} Box */
/** @typedef {{x: number, w: number}} Column from the left of where units begin */

/**
 * @typedef {object} Band
 * @property {number} y from the top of the stage
 * @property {number} h
 * @property {number} labelY baseline of its label
 * @property {number} seamY baseline of the name of the tier that begins with it; NaN if none does, or it
 *   has no room
 * @property {string} tier its tier as named in its label, if the tier has no name above; else ""
 */

/**
 * @typedef {object} CardLayout
 * @property {Box[]} cards
 * @property {number} pad from a card's edge to its content
 * @property {Column[]} columns
 * @property {Band[]} bands
 * @property {boolean} gutter labels of states stand left of the cards, once for all
 * @property {boolean} isTight bands are closer to each other than lines of text: tiers have names, and
 *   of states those that have room
 * @property {number} gutterWidth
 * @property {boolean} twoLines bytes stand under the rank's name
 * @property {boolean} isNarrow of these bytes there is room for the number alone
 * @property {number} nameY baseline of the rank's name
 * @property {number} bytesY
 * @property {number} unitsY baseline of the units' names
 * @property {NodeSpan[]} nodes where cards of one node stand; empty if there is one node
 * @property {number} nodeY baseline of their names
 */

/** @typedef {{left: number, right: number, name: string}} NodeSpan */

/**
 * Widths of units: by the square root of their elements, so that small ones stay visible.
 * @param {readonly number[]} elements
 * @param {number} width
 * @param {number} gap
 * @param {number} least
 * @returns {Column[]} whole pixels
 */
export function unitColumns(elements, width, gap, least) {
  const count = elements.length;
  if (count === 0) {
    return [];
  }
  let between = gap;
  while (between > (width > 3 * count ? 1 : 0) && (width - between * (count - 1)) / count < Math.min(least, 6)) {
    between -= 1;
  }
  const room = width - between * (count - 1);
  const floor = Math.min(least, room / count);
  const weights = elements.map((one) => Math.sqrt(Math.max(1, one)));
  const pinned = weights.map(() => false);
  let share = 0;
  for (let settled = false; !settled; ) {
    settled = true;
    let free = room;
    let total = 0;
    for (const [i, weight] of weights.entries()) {
      free -= pinned[i] ? floor : 0;
      total += pinned[i] ? 0 : weight;
    }
    share = total > 0 ? free / total : 0;
    for (const [i, weight] of weights.entries()) {
      if (!pinned[i] && weight * share < floor) {
        pinned[i] = true;
        settled = false;
      }
    }
  }
  let at = 0;
  return weights.map((weight, i) => {
    const x = Math.round(at);
    at += pinned[i] ? floor : weight * share;
    const w = Math.max(1, Math.round(at) - x);
    at += between;
    return { x, w };
  });
}

/**
 * @param {object} given
 * @param {number} given.width
 * @param {number} given.height
 * @param {number} given.numRanks 1 to MAX_CARDS
 * @param {readonly Unit[]} given.units
 * @param {readonly State[]} given.states
 * @param {Fonts} given.fonts
 * @param {Measure} given.measure
 * @param {readonly number[]} [given.ranks] global
 * @param {number} [given.perNode] ranks of a node
 * @returns {CardLayout}
 */
export function layoutCards({ width, height, numRanks, units, states, fonts, measure, ranks = [], perNode = Infinity }) {
  const gap = numRanks <= 4 ? 16 : 10;
  const nodes = nodesOf(ranks, perNode);
  const nodeFooter = nodes.length > 1 ? fonts.size + 13 : 0;
  const nodeGap = nodes.length > 1 ? NODE_GAP : 0;
  const numSeams = seamsIn(states);
  const { size } = fonts;
  const mostWide = numRanks === 1 ? 760 : 560;
  const labelWidth = Math.max(0, ...states.map(({ label }) => measure(label, fonts.text)));
  const isTight = height < leastHeight(states, nodes.length, fonts);
  const isOneTier = states.every(({ tier }) => tier === "device");
  const roleWidth = Math.max(
    0,
    ...states.flatMap(({ role, tier }, s) => {
      const names = isTogether(states, s) ? [shortRole(role), named("optimizer")] : [shortRole(role)]; // one name where rows are low
      return names.map((name) => measure(isOneTier ? name : `${named(tier)} ${name}`, fonts.text));
    }),
  );

  /** @param {boolean} gutter */
  const attempt = (gutter) => {
    const gutterWidth = gutter ? Math.ceil(roleWidth) + 12 : 0;
    const room = width - gutterWidth - gap * (numRanks - 1) - nodeGap * (nodes.length - 1) - 2;
    const cardWidth = Math.floor(Math.min(room / numRanks, mostWide));
    const pad = cardWidth < 190 ? 8 : 12;
    const inner = cardWidth - 2 * pad;
    const name = measure(say("shared.rank", { rank: 0 }), fonts.strong) + size + 5;
    const widest = gutter ? "99.9 MB" : numSeams === 0 ? `${say("draw.cards.states_2")}99.9 MB` : `${say("draw.cards.states_device")}99.9 MB`;
    const twoLines = name + 10 + measure(widest, fonts.mono) > inner;
    const header = twoLines ? 2 * size + 18 : size + 17;
    // without known units, a bar of the memory and a line below it
    const footer = fonts.smallSize + 12 + (states.length === 0 ? 1.6 * size : 0);
    const above = gutter ? 0 : size + 6;
    const seam = gutter && height < leastHeight(states, nodes.length, fonts) + numSeams * seamHeight(size) ? SHORT_SEAM : seamHeight(size);
    let between = gutter ? (isTight ? TIGHT : 9) : 8;
    const bytes = states.reduce((sum, state) => sum + state.bytes_per_parameter, 0);
    const rounding = states.length / 2;
    const left = height - header - footer - nodeFooter - 2 - states.length * above - numSeams * seam - rounding;
    const together = gutter ? states.filter((_, s) => isTogether(states, s)).length : 0;
    const share = () => {
      const free = left - (states.length - 1 - together) * between - together * TOGETHER;
      return Math.min(MOST_PER_BYTE, Math.max(LEAST_PER_BYTE, bytes > 0 ? free / bytes : 0));
    };
    let perByte = share();
    // Names beside bands need room.
    for (; gutter && !isTight && between < size && perByte * 2 + between < size + 1; between += 1) {
      perByte = share();
    }
    const fits = labelWidth <= inner && perByte * 2 >= LEAST_BAND;
    return { gutterWidth, cardWidth, pad, inner, twoLines, header, footer, above, between, perByte, fits, seam };
  };
  let gutter = false;
  let chosen = attempt(false);
  if (!chosen.fits && states.length > 0 && numRanks > 0) {
    gutter = true;
    chosen = attempt(true);
  }
  const { gutterWidth, cardWidth, pad, inner, twoLines, header, footer, above, between, perByte, seam } = chosen;

  const top = 0;
  const bands = layoutBands(states, top + header, perByte, { above, between, gutter, seam }, size);
  const unitsY = belowBands(bands, top + header, fonts);
  const cardHeight = Math.min(height - top - nodeFooter - 1, unitsY - fonts.smallSize - 5 + footer - top);
  const used = gutterWidth + numRanks * cardWidth + (numRanks - 1) * gap + nodeGap * (nodes.length - 1);
  const left = Math.round((width - used) / 2) + gutterWidth;
  const least = numRanks <= 4 ? 16 : 9;
  const cards = Array.from({ length: numRanks }, (_, r) => ({
    x: left + r * (cardWidth + gap) + nodeGap * Math.max(0, nodes.findIndex(({ places }) => places.includes(r))),
    y: top,
    w: cardWidth,
    h: Math.round(cardHeight),
  }));
  return {
    cards,
    nodes: nodes.map(({ name, places }) => ({
      name,
      left: cards[places[0]].x,
      right: cards[places[places.length - 1]].x + cardWidth,
    })),
    nodeY: top + Math.round(cardHeight) + size + 7,
    pad,
    columns: unitColumns(units.map((unit) => unit.elements), inner, 3, least),
    bands,
    gutter,
    isTight: gutter && isTight,
    gutterWidth,
    twoLines,
    isNarrow: gutter && twoLines && measure("99.9 MB", fonts.mono) > inner,
    nameY: top + size + 6,
    bytesY: top + (twoLines ? 2 * size + 9 : size + 6),
    unitsY,
  };
}

/**
 * Bands on top of each other, with heights by bytes.
 * @param {readonly State[]} states
 * @param {number} top
 * @param {number} perByte
 * @param {{above: number, between: number, gutter: boolean, seam: number}} room above each band, between
 *   two, and where a tier begins
 * @param {number} size of the text
 * @returns {Band[]}
 */
function layoutBands(states, top, perByte, { above, between, gutter, seam }, size) {
  let y = top;
  return states.map((state, s) => {
    const band = { y: 0, h: heightOfBand(state, perByte), labelY: 0, seamY: NaN, tier: "" };
    if (isSeam(states, s)) {
      y += seam;
      band.seamY = seam > SHORT_SEAM ? Math.round(y - (gutter ? 9 : 4)) : NaN;
    }
    band.tier = seam > SHORT_SEAM || state.tier === "device" ? "" : state.tier;
    band.y = Math.round(y + above);
    band.labelY = gutter
      ? Math.round(band.y + band.h / 2 + size * 0.36)
      : Math.round(band.y - size * 0.44);
    y = band.y + band.h + (gutter && isTogether(states, s + 1) ? TOGETHER : between);
    return band;
  });
}

/** @param {State} state @param {number} perByte */
function heightOfBand({ bytes_per_parameter: bytes }, perByte) {
  return Math.max(4, Math.round(bytes * perByte));
}

const NODE_GAP = 22;
/** Between tiers with names in the labels of their states. */
const SHORT_SEAM = 6;

/**
 * The height in which the bands of cards have their labels beside them.
 * @param {readonly State[]} states
 * @param {number} numNodes
 * @param {Fonts} fonts
 */
export function leastHeight(states, numNodes, { size, smallSize }) {
  const labels = states.filter((_, s) => !isTogether(states, s)).length;
  const around = size + 17 + smallSize + 12 + (numNodes > 1 ? size + 13 : 0);
  return around + labels * (size + 3) + states.length * 3 + seamsIn(states) * SHORT_SEAM;
}

/**
 * The height in which the bands of cards are there at all.
 * @param {readonly State[]} states
 * @param {number} numNodes
 * @param {Fonts} fonts
 */
export function tightHeight(states, numNodes, { size, smallSize }) {
  const around = size + 17 + smallSize + 12 + (numNodes > 1 ? size + 13 : 0);
  const bands = states.reduce((sum, state) => sum + heightOfBand(state, LEAST_PER_BYTE), 0);
  const gaps = states.reduce((sum, _, s) => sum + (isTogether(states, s) ? TOGETHER : TIGHT), 0);
  return around + bands + gaps + seamsIn(states) * SHORT_SEAM;
}

const LEAST_PER_BYTE = 1.5;
const TIGHT = 4;
/** Between two states of the optimizer, which are always held alike. */
const TOGETHER = 2;
const OPTIMIZER = ["fp32 master", "momentum", "variance"];

/** Whether a state belongs to the one above it: two of the optimizer, in one tier.
 *  @param {readonly State[]} states @param {number} s */
export function isTogether(states, s) {
  const [one, other] = [states[s - 1], states[s]];
  return Boolean(one && other) && one.tier === other.tier && OPTIMIZER.includes(one.role) && OPTIMIZER.includes(other.role);
}

/** Room for the name of a tier, between its states and those of the tier above. @param {number} size */
function seamHeight(size) {
  return size + 12;
}

/** Whether another tier begins with a state. @param {readonly State[]} states @param {number} s */
export function isSeam(states, s) {
  return s > 0 && states[s].tier !== states[s - 1].tier;
}

/** @param {readonly State[]} states */
function seamsIn(states) {
  return states.filter((_, s) => isSeam(states, s)).length;
}

/**
 * The nodes of some ranks, in their order; none if all are of one.
 * @param {readonly number[]} ranks global, ascending
 * @param {number} perNode
 */
export function nodesOf(ranks, perNode) {
  /** @type {{name: string, places: number[]}[]} */
  const nodes = [];
  for (const [place, rank] of ranks.entries()) {
    const name = say("draw.layout.node", { rank: Math.floor(rank / perNode) });
    const last = nodes.at(-1);
    if (last?.name === name) {
      last.places.push(place);
    } else {
      nodes.push({ name, places: [place] });
    }
  }
  return nodes.length > 1 ? nodes : [];
}

/**
 * Baseline of the units' names.
 * @param {readonly Band[]} bands
 * @param {number} top upper edge
 * @param {Fonts} fonts
 */
function belowBands(bands, top, { smallSize }) {
  const last = bands.at(-1);
  return Math.round((last ? last.y + last.h : top) + smallSize + 5);
}

/**
 * @typedef {object} MapLayout
 * @property {number} left where units begin
 * @property {number} width of all columns
 * @property {Column[]} columns
 * @property {Band[]} bands
 * @property {number} unitsY baseline of the units' names
 * @property {boolean} gutter labels of states stand left of their bands
 */

/**
 * The map of one rank, alone in its room.
 * @param {object} given
 * @param {number} given.width
 * @param {number} given.height
 * @param {readonly Unit[]} given.units
 * @param {readonly State[]} given.states
 * @param {Fonts} given.fonts
 * @param {Measure} given.measure
 * @returns {MapLayout}
 */
export function layoutMap({ width, height, units, states, fonts, measure }) {
  const edge = 3;
  const bytes = states.reduce((sum, state) => sum + state.bytes_per_parameter, 0);
  const labelWidth = Math.max(0, ...states.map(({ label }) => measure(label, fonts.text)));
  const roleWidth = Math.max(0, ...states.map(({ role }) => measure(shortRole(role), fonts.text)));

  /** @param {boolean} gutter */
  const attempt = (gutter) => {
    const room = { above: gutter ? 0 : fonts.size + 4, between: gutter ? 8 : 6, gutter, seam: seamHeight(fonts.size) };
    const left = edge + (gutter ? Math.ceil(roleWidth) + 10 : 0);
    const free =
      height - 2 * edge - fonts.smallSize - 9 - states.length * room.above - (states.length - 1) * room.between -
      seamsIn(states) * seamHeight(fonts.size);
    const perByte = Math.min(MOST_PER_BYTE, Math.max(1.5, bytes > 0 ? free / bytes : 0));
    const fits = labelWidth <= width - left && perByte * 2 >= LEAST_BAND;
    return { room, left, perByte, fits };
  };
  const above = attempt(false);
  const { room, left, perByte } = above.fits || states.length === 0 ? above : attempt(true);
  const bands = layoutBands(states, edge, perByte, room, fonts.size);
  const inner = Math.max(10, width - left - edge);
  return {
    left,
    width: inner,
    columns: unitColumns(units.map((unit) => unit.elements), inner, 3, 16),
    bands,
    unitsY: belowBands(bands, edge, fonts),
    gutter: room.gutter,
  };
}

/**
 * The card at a point; -1 if there is none.
 * @param {readonly Box[]} boxes
 * @param {number} x
 * @param {number} y
 */
export function hit(boxes, x, y) {
  return boxes.findIndex((box) => x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h);
}
