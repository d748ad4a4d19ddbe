// Colours, each with one meaning. Hues belong to shards and their owners; phases are tints of one neutral,
// the later the further from the card; roles of memory and places of copies have dull tones of their own,
// which meet neither. Both themes; text on a colour is chosen by contrast.

/** @import { Phase } from "#player/types.d.ts" */
/** @typedef {"light" | "dark"} Theme */

/** In the order of a timeline's numbers; the last is for values in none of the three.
 *  @type {readonly Phase[]} */
export const PHASES = ["forward", "backward", "update", "outside"];

/**
 * @typedef {object} Palette
 * @property {Theme} theme
 * @property {string} card behind everything of a view
 * @property {string} inset a rank's card
 * @property {string} line borders and axes
 * @property {string} track a cell with nothing in it
 * @property {string} text
 * @property {string} muted text of lesser weight, still readable
 * @property {string} arc where packets travel
 * @property {string} strong outlines
 * @property {string} path the critical path
 * @property {string} cursor how far each rank is
 * @property {string} wait a rank or lane that waits
 * @property {string} break a breakpoint
 * @property {string} select the selected rank
 * @property {readonly string[]} shards Okabe and Ito's hues, for shards and their owners
 * @property {readonly string[]} edges the same, dark or light enough for a thin line
 * @property {Readonly<Record<Phase, string>>} phases
 * @property {Readonly<Record<Phase, string>>} communication
 * @property {readonly [string, string]} copies over the bus, to and from a disk
 * @property {string} unknown a packet with an unknown shard
 */

/** @type {Readonly<Record<Theme, Palette>>} */
const PALETTES = {
  light: {
    theme: "light",
    card: "#ffffff",
    inset: "#fbfcfd",
    line: "#d9dee5",
    track: "#eceff3",
    text: "#1b2430",
    muted: "#566170",
    arc: "#ccd2da",
    strong: "#1b2430",
    path: "#1b2430",
    cursor: "#B3124F",
    wait: "#a3acb8",
    break: "#c0342b",
    select: "#4a5868",
    shards: [
      "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#7B4FB5",
    ],
    edges: [
      "#0072B2", "#B97F00", "#00805D", "#B4588D", "#2B8AC2", "#B85000", "#8C8400", "#7B4FB5",
    ],
    phases: {
      forward: "#8292AD", backward: "#566887", update: "#28344D", setup: "#88919D", outside: "#88919D",
    },
    communication: {
      forward: "#C7CEDA", backward: "#B3BBC9", update: "#9EA4AF", setup: "#CCD0D5", outside: "#CCD0D5",
    },
    copies: ["#B08D6E", "#6E4A60"],
    unknown: "#6b7684",
  },
  dark: {
    theme: "dark",
    card: "#161c25",
    inset: "#1b222d",
    line: "#36414f",
    track: "#29323f",
    text: "#edf1f6",
    muted: "#a9b5c3",
    arc: "#4a5667",
    strong: "#f4f7fa",
    path: "#c3ccd7",
    cursor: "#FF5C93",
    wait: "#76828f",
    break: "#ff7b70",
    select: "#c0cbd8",
    shards: [
      "#2F8FD3", "#E69F00", "#12B184", "#D68AB5", "#7CC7F2", "#E4702A", "#F0E442", "#A98BE0",
    ],
    edges: [
      "#4FA5E3", "#EDB033", "#25C497", "#DF9EC3", "#8FD0F5", "#EE8748", "#F0E442", "#B79CE8",
    ],
    phases: {
      forward: "#64748F", backward: "#97A7C2", update: "#D3DDED", setup: "#7C8794", outside: "#7C8794",
    },
    communication: {
      forward: "#3D485A", backward: "#566274", update: "#747C89", setup: "#49525C", outside: "#49525C",
    },
    copies: ["#8A6A50", "#8A6478"],
    unknown: "#93a0af",
  },
};

/** Memory by role; the first that is part of the role's name. */
const ROLES = /** @type {const} */ ([
  ["gathered", "#86AFA9", "#3F7276"],
  ["secondary", "#5F8A8E", "#77A9AD"],
  ["workspaces", "#B7BFC9", "#5B6470"],
  ["checkpoint", "#8A6257", "#B98F84"],
  ["buffer", "#DCCFB0", "#E6DFC4"],
  ["activation", "#D3B3A6", "#8E6F67"],
  ["parameters", "#2F5D62", "#4E8A90"],
  ["gradient", "#7A2E46", "#B0566F"],
  ["master", "#6B6248", "#8C8264"],
  ["momentum", "#8F866B", "#A99F80"],
  ["variance", "#B4AC93", "#C3BCA3"],
  ["", "#DCE1E6", "#48535F"],
]);

/** @param {Theme} theme @returns {Palette} */
export function palette(theme) {
  return PALETTES[theme];
}

/**
 * The hue of a shard, or of the rank that owns it.
 * @param {Palette} colours
 * @param {number} shard -1 if unknown
 */
export function shardColour(colours, shard) {
  return shard < 0 ? colours.unknown : colours.shards[shard % colours.shards.length];
}

/**
 * A shard's hue as a line on the background.
 * @param {Palette} colours
 * @param {number} shard -1 if unknown
 */
export function shardEdge(colours, shard) {
  return shard < 0 ? colours.unknown : colours.edges[shard % colours.edges.length];
}

/** @param {Theme} theme @param {string} role */
export function roleColour(theme, role) {
  const [, light, dark] = ROLES.find(([part]) => role.includes(part)) ?? ROLES[ROLES.length - 1];
  return theme === "light" ? light : dark;
}

/** Ink for text on a colour: the one of two with more contrast. @param {string} fill */
export function inkOn(fill) {
  let ink = inks.get(fill);
  if (ink === undefined) {
    ink = contrast(fill, "#ffffff") >= contrast(fill, "#10161d") ? "#ffffff" : "#10161d";
    inks.set(fill, ink);
  }
  return ink;
}

/** @type {Map<string, string>} */
const inks = new Map();

/**
 * Contrast of two colours, 1 to 21 (WCAG 2.2, relative luminance).
 * @param {string} one "#rrggbb"
 * @param {string} other
 */
export function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** @param {string} colour */
function luminance(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/**
 * A colour between two others.
 * @param {string} from "#rrggbb"
 * @param {string} to
 * @param {number} part 0 gives `from`, 1 gives `to`
 */
export function mix(from, to, part) {
  let text = "#";
  for (const at of [1, 3, 5]) {
    const a = parseInt(from.slice(at, at + 2), 16);
    const b = parseInt(to.slice(at, at + 2), 16);
    text += Math.round(a + (b - a) * part).toString(16).padStart(2, "0");
  }
  return text;
}
