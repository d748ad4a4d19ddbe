// The layout of the magnifier: a lens for each rank, its rows of tiles, the ring around
// them. Up to four ranks stand in a line, more go there and back, so that neighbours stay neighbours.
// Of more than eight, the ranks around the selected one are shown, each with a strip of all shards. Pure.

/** @import { Box } from "#player/draw/layout.js" */
/** @import { Fonts } from "#player/draw/text.js" */

const MOST_IN_LINE = 4;
const MOST_LENSES = 8;
const LEAST_TILE = 26;
const MOST_TILE = 130;
const MOST_WIDE = 104;
const PAD = 12;
/** What a packet is higher than its text. */
const PACKET = 10;

/**
 * A rank's part of the magnifier.
 * @typedef {object} Lens
 * @property {number} rank position in `ranks`
 * @property {number} x
 * @property {number} w
 * @property {number} nameY baseline
 * @property {Box[]} rows of tiles
 * @property {number} wordsY baseline of the first line; NaN where words have no room
 * @property {number} line of the ring, from above
 * @property {number} top where ways from above end
 * @property {number} bottom where ways from below end
 */

/**
 * @typedef {object} MagnifierLayout
 * @property {number} captionY baseline; NaN if there is no room
 * @property {Lens[]} lenses
 * @property {Map<number, number>} at where in `lenses` a rank is
 * @property {number} gutter room for the names of rows, left of the tiles; 0 if there is one row
 * @property {boolean} isFolded strips of all shards instead of a tile for each
 * @property {number} packetHeight
 * @property {number} lines of words
 */

/**
 * Which ranks are shown, in the order of the ring: all, or the selected one between its neighbours.
 * @param {number} numRanks
 * @param {number} selected
 * @param {readonly {from: number, to: number}[]} edges
 */
export function shownRanks(numRanks, selected, edges) {
  if (numRanks <= MOST_LENSES) {
    return Array.from({ length: numRanks }, (_, rank) => rank);
  }
  const before = edges.find(({ from, to }) => to === selected && from >= 0)?.from ?? (selected + numRanks - 1) % numRanks;
  const after = edges.find(({ from, to }) => from === selected && to >= 0 && to !== before)?.to ?? (selected + 1) % numRanks;
  return [before, selected, after];
}

/**
 * @param {object} given
 * @param {number} given.width
 * @param {number} given.height
 * @param {readonly number[]} given.shown ranks, in the order of the ring
 * @param {number} given.numRanks
 * @param {number} given.numRows of tiles; 0 where no shards are shown
 * @param {number} given.gutter width of the longest name of a row; used if there are several
 * @param {boolean} given.hasArcs something travels above
 * @param {boolean} given.hasReturn something travels back, below
 * @param {number} given.longest width of the longest line on a rank
 * @param {Fonts} given.fonts
 * @returns {MagnifierLayout}
 */
export function layoutMagnifier(given) {
  const { width, shown, numRanks, numRows, gutter, fonts } = given;
  const isFolded = numRanks > MOST_LENSES;
  const ringLines = shown.length > MOST_IN_LINE ? 2 : 1;
  const perLine = Math.ceil(shown.length / ringLines);
  const room = numRows > 1 ? Math.ceil(gutter) + 10 : 0;
  const between = isFolded ? 40 : shown.length > 2 ? Math.round(Math.min(44, Math.max(14, width * 0.03))) : 60;
  const most = isFolded ? 560 : Math.max(320, numRanks * MOST_WIDE);
  const w = Math.min(most, Math.floor((width - 2 * PAD - room - between * (perLine - 1)) / perLine));
  const left = Math.round((width - perLine * w - between * (perLine - 1) - room) / 2) + room;
  const heights = heightsOf(given, ringLines, w);
  const { top, arcs, name, tile, gap, block, words, betweenLines } = heights;
  const lenses = shown.map((rank, i) => {
    const line = Math.floor(i / perLine);
    const column = line % 2 === 0 ? i % perLine : perLine - 1 - (i % perLine);
    const x = left + column * (w + between);
    const y = top + arcs + line * (block + betweenLines);
    const below = y + name + numRows * tile + gap * Math.max(0, numRows - 1);
    return {
      rank,
      x,
      w,
      nameY: y + fonts.size,
      rows: Array.from({ length: numRows }, (_, row) => ({ x, y: y + name + row * (tile + gap), w, h: tile })),
      wordsY: words > 0 ? below + Math.round(fonts.size * 1.3) : NaN,
      line,
      top: y - 3,
      bottom: y + block,
    };
  });
  return {
    captionY: heights.caption > 5 ? fonts.size + 8 : NaN,
    lenses,
    at: new Map(shown.map((rank, i) => [rank, i])),
    gutter: room,
    isFolded,
    packetHeight: fonts.size + PACKET,
    lines: words,
  };
}

/**
 * Heights of all stacked parts. Where tiles would be too low, the caption goes first, then
 * the words.
 * @param {Parameters<typeof layoutMagnifier>[0]} given
 * @param {number} ringLines
 * @param {number} w of a lens
 */
function heightsOf({ height, fonts, hasArcs, hasReturn, longest, shown, numRows: rows }, ringLines, w) {
  const { size } = fonts;
  const arc = size + PACKET + 12;
  const arcs = hasArcs ? arc : 6;
  const back = hasReturn && shown.length > 1 ? arc : 6;
  const betweenLines = hasReturn ? size + PACKET + 8 : 12;
  const name = size + 9;
  const gap = 6;
  const wanted = longest > w + 10 ? 2 : 1;
  /** @param {number} caption @param {number} words */
  const attempt = (caption, words) => {
    const around = name + gap * Math.max(0, rows - 1) + words * Math.round(size * 1.3) + 8;
    const fixed = caption + arcs + back + ringLines * around + (ringLines - 1) * betweenLines;
    const tile = Math.floor((height - 4 - fixed) / ringLines / Math.max(1, rows));
    return { caption, words, tile, fixed, around };
  };
  const captionHeight = size + 16;
  const attempts = [attempt(captionHeight, wanted), attempt(captionHeight, 1), attempt(5, 1), attempt(5, 0)];
  const chosen = attempts.find(({ tile }) => tile >= LEAST_TILE) ?? attempts[attempts.length - 1];
  const tile = Math.max(8, Math.min(Math.max(MOST_TILE, height * 0.42), chosen.tile));
  const content = chosen.fixed + ringLines * rows * tile;
  const { caption, words, around } = chosen;
  const top = caption + Math.max(0, Math.floor((height - 4 - content) / 2));
  return { top, arcs, name, tile, gap, caption, words, betweenLines, block: around + rows * tile };
}

/**
 * Where a tile lies in its row.
 * @param {Box} row
 * @param {number} shard
 * @param {number} numShards
 * @param {boolean} [isStacked] on each other, not beside each other
 * @returns {Box}
 */
export function tileBox({ x, y, w, h }, shard, numShards, isStacked = false) {
  if (isStacked) {
    const turned = tileBox({ x: y, y: x, w: h, h: w }, shard, numShards);
    return { x, y: turned.x, w: w - 3, h: turned.w };
  }
  const gap = w / numShards >= 18 ? 3 : w / numShards >= 6 ? 1 : 0;
  const left = x + Math.round((w * shard) / numShards);
  const right = x + Math.round((w * (shard + 1)) / numShards);
  return { x: left, y, w: Math.max(1, right - left - gap), h };
}

/** A curve of the ring. @typedef {readonly [number, number, number, number, number, number, number, number]} Way */

/**
 * The way from one rank to another: in one line there above, and back below; in two lines above the first,
 * below the second, and at the side from one to the other.
 * @param {MagnifierLayout} layout
 * @param {number} from
 * @param {number} to
 * @returns {Way}
 */
export function wayOf({ lenses, at, packetHeight }, from, to) {
  const a = lenses[at.get(from) ?? -1];
  const b = lenses[at.get(to) ?? -1];
  const high = packetHeight * 1.25;
  if (!a || !b) {
    return toTheEdge(a ?? b, Boolean(a), high);
  }
  if (a.line !== b.line) {
    return fromLineToLine(a, b, a.x + b.x < 2 * lenses[0].x + lenses[0].w);
  }
  const isRight = b.x > a.x;
  const isFar = Math.abs((at.get(from) ?? 0) - (at.get(to) ?? 0)) > 1;
  const isAbove = lenses.length > MOST_IN_LINE ? a.line === 0 : isRight;
  const x0 = a.x + a.w * (isRight ? 0.72 : 0.28);
  const x1 = b.x + b.w * (isRight ? 0.3 : 0.7);
  const y = isAbove ? a.top : a.bottom;
  const rise = (isAbove ? -high : high) * (isFar && isAbove ? 1.3 : 1);
  const dx = (x1 - x0) * 0.18;
  return [x0, y, x0 + dx, y + rise, x1 - dx, y + rise, x1, y];
}

/** To or from a rank that is not shown. @param {Lens} lens @param {boolean} goes @param {number} high
 *  @returns {Way} */
function toTheEdge({ x, w, top }, goes, high) {
  const edge = goes ? x + w : x;
  const way = goes ? 1 : -1;
  const [inner, outer] = [edge - way * w * 0.25, edge + way * 30];
  const y = top - high * 0.6;
  return goes ? [inner, top, edge - 10, y, edge, y, outer, y] : [outer, y, edge, y, edge + 10, y, inner, top];
}

/** Down or up at a side of the ring. @param {Lens} a @param {Lens} b @param {boolean} isLeft @returns {Way} */
function fromLineToLine(a, b, isLeft) {
  const aside = isLeft ? 0.2 : 0.8;
  const isDown = a.line < b.line;
  const [x0, x1] = [a.x + a.w * aside, b.x + b.w * aside];
  const [y0, y1] = isDown ? [a.bottom, b.top] : [a.top, b.bottom];
  return [x0, y0, x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1];
}
