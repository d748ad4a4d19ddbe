// Where everything of the stage lies: cards, bands, unit columns, the room of the ring. Pure.

import { shortRole } from "#player/draw/stack.js";

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
 * @property {number} seamY baseline of the name of the tier that begins with it; NaN if none does
 */

/**
 * @typedef {object} CardLayout
 * @property {Box[]} cards
 * @property {number} pad from a card's edge to its content
 * @property {Column[]} columns
 * @property {Band[]} bands
 * @property {boolean} gutter labels of states stand left of the cards, once for all
 * @property {number} gutterWidth
 * @property {boolean} twoLines bytes stand under the rank's name
 * @property {number} nameY baseline of the rank's name
 * @property {number} bytesY
 * @property {number} unitsY baseline of the units' names
 * @property {number} ringHeight above the cards
 * @property {number} labelHeight of a packet
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
  const labelHeight = size + 9;
  const ringHeight =
    numRanks === 1
      ? size + 12
      : Math.round(Math.min(2 * labelHeight + 52, Math.max(2 * labelHeight + 24, height * 0.19)));
  const mostWide = numRanks === 1 ? 760 : 560;
  const labelWidth = Math.max(0, ...states.map(({ label }) => measure(label, fonts.text)));
  const roleWidth = Math.max(0, ...states.map(({ role }) => measure(shortRole(role), fonts.text)));

  /** @param {boolean} gutter */
  const attempt = (gutter) => {
    const gutterWidth = gutter ? Math.ceil(roleWidth) + 12 : 0;
    const room = width - gutterWidth - gap * (numRanks - 1) - nodeGap * (nodes.length - 1) - 2;
    const cardWidth = Math.floor(Math.min(room / numRanks, mostWide));
    const pad = cardWidth < 190 ? 8 : 12;
    const inner = cardWidth - 2 * pad;
    const name = measure("rank 0", fonts.strong) + size + 5;
    const widest = gutter || numSeams === 0 ? "states 99.9 MB" : "states, device 99.9 MB";
    const twoLines = name + 10 + measure(widest, fonts.mono) > inner;
    const header = twoLines ? 2 * size + 20 : size + 21;
    const footer = fonts.smallSize + 17;
    const above = gutter ? 0 : size + 6;
    let between = gutter ? 9 : 8;
    const bytes = states.reduce((sum, state) => sum + state.bytes_per_parameter, 0);
    const left = height - ringHeight - header - footer - nodeFooter - 2 - states.length * above - numSeams * seamHeight(size);
    const share = () => {
      const free = left - (states.length - 1) * between;
      return Math.min(MOST_PER_BYTE, Math.max(1.5, bytes > 0 ? free / bytes : 0));
    };
    let perByte = share();
    // Names beside bands need room where tiers make many of them.
    for (; numSeams > 0 && gutter && between < size && perByte * 2 + between < size + 1; between += 1) {
      perByte = share();
    }
    const fits = labelWidth <= inner && perByte * 2 >= LEAST_BAND;
    return { gutterWidth, cardWidth, pad, inner, twoLines, header, footer, above, between, perByte, fits };
  };
  let gutter = false;
  let chosen = attempt(false);
  if (!chosen.fits && states.length > 0 && numRanks > 0) {
    gutter = true;
    chosen = attempt(true);
  }
  const { gutterWidth, cardWidth, pad, inner, twoLines, header, footer, above, between, perByte } = chosen;

  const top = ringHeight;
  const bands = layoutBands(states, top + header, perByte, { above, between, gutter }, size);
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
    gutterWidth,
    twoLines,
    nameY: top + size + 9,
    bytesY: top + (twoLines ? 2 * size + 12 : size + 9),
    unitsY,
    ringHeight,
    labelHeight,
  };
}

/**
 * Bands on top of each other, with heights by bytes.
 * @param {readonly State[]} states
 * @param {number} top
 * @param {number} perByte
 * @param {{above: number, between: number, gutter: boolean}} room above each band and between two
 * @param {number} size of the text
 * @returns {Band[]}
 */
function layoutBands(states, top, perByte, { above, between, gutter }, size) {
  let y = top;
  return states.map((state, s) => {
    const band = { y: 0, h: Math.max(4, Math.round(state.bytes_per_parameter * perByte)), labelY: 0, seamY: NaN };
    if (isSeam(states, s)) {
      y += seamHeight(size);
      band.seamY = Math.round(y - (gutter ? 9 : 4));
    }
    band.y = Math.round(y + above);
    band.labelY = gutter
      ? Math.round(band.y + band.h / 2 + size * 0.36)
      : Math.round(band.y - size * 0.44);
    y = band.y + band.h + between;
    return band;
  });
}

const NODE_GAP = 22;

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
    const name = `node ${Math.floor(rank / perNode)}`;
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
 * @param {number} top where they begin
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
    const room = { above: gutter ? 0 : fonts.size + 4, between: gutter ? 8 : 6, gutter };
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
