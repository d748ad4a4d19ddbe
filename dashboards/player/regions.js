// Names on hover and focus. Drawings register here how their parts are found; nothing is computed before the
// user points at it, and nothing in a frame. A drawing can have the focus: arrows then lead from one of its
// parts to the next.

import { make, write } from "#player/dom.js";
import { pointIn } from "#player/draw/layer.js";
import { spokenName } from "#player/naming/names.js";
import { say } from "#player/words.js";

/** @import { Box } from "#player/draw/layout.js" */
/** @import { Named } from "#player/naming/names.js" */

/** The part at a position. @typedef {{box: Box, named: Named}} Region in CSS pixels of the drawing */

/**
 * The registration of a drawing.
 * @typedef {object} Drawing
 * @property {(x: number, y: number) => Region | null} find
 * @property {() => [x: number, y: number][]} spots a point of each part that a keyboard leads to, in order
 */

/** Away from the pointer. */
const ASIDE = 14;
const KEYS = ["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "Home", "End"];

export class Regions {
  /** @param {HTMLElement} root @param {HTMLElement} spoken the element for screen readers */
  constructor(root, spoken) {
    this.spoken = spoken;
    this.card = make("div", "named");
    this.card.hidden = true;
    this.card.setAttribute("aria-hidden", "true"); // `spoken` says it
    this.ring = make("div", "named-part");
    this.ring.hidden = true;
    root.append(this.ring, this.card);
    /** @type {{host: HTMLElement, drawing: Drawing, x: number, y: number, byKey: boolean} | null} */
    this.open = null;
    this.position = -1;
    addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    addEventListener("scroll", () => this.close(), true);
  }

  /**
   * @param {HTMLElement} host
   * @param {string} label its name for screen readers
   * @param {Drawing} drawing
   */
  register(host, label, drawing) {
    host.tabIndex = 0;
    host.setAttribute("role", "group");
    host.setAttribute("aria-label", say("regions.arrows_name_its_parts", { label }));
    host.dataset.named = "";
    let spot = 0;
    let isFresh = true;
    // A pointer names the part there and leaves the arrow keys to the page.
    host.addEventListener("mousedown", (event) => event.preventDefault());
    host.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "touch" && event.buttons === 0) {
        const { x, y } = pointIn(event, host);
        this.show(host, drawing, x, y, false);
      } else {
        this.close();
      }
    });
    host.addEventListener("pointerleave", () => this.close());
    host.addEventListener("blur", () => {
      isFresh = true;
      this.close();
    });
    host.addEventListener("keydown", (event) => {
      const spots = KEYS.includes(event.key) && !event.shiftKey ? drawing.spots() : [];
      if (spots.length > 0) {
        event.preventDefault();
        const by = ["ArrowRight", "ArrowDown", "Home"].includes(event.key) ? 1 : -1;
        const start = event.key === "Home" ? 0 : event.key === "End" ? spots.length - 1 : isFresh ? spot : spot + by;
        isFresh = false;
        spot = nextSpot(spots, start, by, (x, y) => drawing.find(x, y) !== null);
        this.show(host, drawing, ...spots[spot], true);
      }
    });
  }

  /** The scene may have changed: then the part under the pointer is another one. @param {number} position */
  refresh(position) {
    if (this.open && position !== this.position) {
      const { host, drawing, x, y, byKey } = this.open;
      this.show(host, drawing, x, y, byKey);
    }
    this.position = position;
  }

  /** @param {HTMLElement} host @param {Drawing} drawing @param {number} x @param {number} y
   *  @param {boolean} byKey */
  show(host, drawing, x, y, byKey) {
    const region = drawing.find(x, y);
    if (!region) {
      this.close();
      return;
    }
    this.open = { host, drawing, x, y, byKey };
    const { title, rows } = region.named;
    const lines = rows.flatMap(([term, value]) => [make("dt", "", term), make("dd", "", value)]);
    this.card.replaceChildren(make("strong", "", title), make("dl", "", ...lines));
    this.card.hidden = false;
    if (byKey) {
      write(this.spoken, spokenName(region.named));
    }
    const { left, top } = host.getBoundingClientRect();
    this.mark(region.box, left, top, byKey);
    this.place(left + x, top + y);
  }

  /** A line around the named part, for the keyboard only. @param {Box} box
   *  @param {number} left @param {number} top @param {boolean} byKey */
  mark({ x, y, w, h }, left, top, byKey) {
    this.ring.hidden = !byKey;
    const { style } = this.ring;
    style.transform = `translate(${left + x - 3}px, ${top + y - 3}px)`;
    style.width = `${w + 6}px`;
    style.height = `${h + 6}px`;
  }

  /** Beside a point, inside of the window. @param {number} x @param {number} y */
  place(x, y) {
    const { offsetWidth: width, offsetHeight: height } = this.card;
    const left = x + ASIDE + width > innerWidth ? x - ASIDE - width : x + ASIDE;
    const top = y + ASIDE + height > innerHeight ? y - ASIDE - height : y + ASIDE;
    this.card.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  }

  close() {
    if (this.open) {
      this.open = null;
      this.card.hidden = true;
      this.ring.hidden = true;
      write(this.spoken, "");
    }
  }
}

/**
 * The first nonempty spot from a given one on; the given one if there is none.
 * @param {readonly (readonly [x: number, y: number])[]} spots
 * @param {number} start
 * @param {1 | -1} by
 * @param {(x: number, y: number) => boolean} isThere
 */
export function nextSpot(spots, start, by, isThere) {
  const count = spots.length;
  /** @param {number} spot */
  const around = (spot) => ((spot % count) + count) % count;
  for (let i = 0; i < count; i += 1) {
    const spot = around(start + i * by);
    if (isThere(...spots[spot])) {
      return spot;
    }
  }
  return around(start);
}
