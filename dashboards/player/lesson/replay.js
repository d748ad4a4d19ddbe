// The replay beside a lesson's text: the player itself, in a frame, at the place that a step names;
// of programs that zerosim's engine does not run, the graph of their events.

import { find } from "#player/dom.js";
import { askForAddress } from "#player/fragment.js";
import { withFields } from "#player/lesson/place.js";

export class Replay {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.card = find(root, "#replay-card", HTMLElement);
    this.frame = find(root, "#replay", HTMLIFrameElement);
    /** The run that is loaded or on its way. */
    this.run = "";
    this.address = "";
    this.loaded = false;
    this.frame.addEventListener("load", () => {
      this.loaded = this.run !== "";
      this.dress();
    });
    new MutationObserver(() => this.dress()).observe(document.documentElement, {
      attributeFilter: ["data-theme", "data-mode"],
    });
  }

  /**
   * Show a place; "" shows nothing.
   * @param {string} address
   * @param {string} title its description, for screen readers
   * @param {boolean} [again] go there although it was shown last
   */
  show(address, title, again = false) {
    this.card.hidden = address === "";
    this.card.setAttribute("aria-label", title);
    this.frame.title = title;
    if (address === "" || (address === this.address && !again)) {
      return;
    }
    this.address = address;
    const [run, hash] = address.split("#");
    const dressed = run + withFields(hash ?? "", look());
    const inside = this.frame.contentWindow;
    if (run === this.run && this.loaded && inside) {
      askForAddress(inside); // or it may still have the one that we send it to
      inside.location.replace(dressed);
    } else {
      this.run = run;
      this.loaded = false;
      // The frame's own history stays empty, so that "back" leaves the lesson.
      if (inside) {
        inside.location.replace(dressed);
      } else {
        this.frame.src = dressed;
      }
    }
  }

  /** In the page's theme and size. */
  dress() {
    const inside = this.frame.contentWindow;
    if (this.loaded && inside) {
      askForAddress(inside);
      const hash = withFields(inside.location.hash, look());
      if (hash !== inside.location.hash) {
        inside.location.replace(this.run + hash); // alone it would be understood as this page's
      }
    }
  }
}

function look() {
  const { theme, mode } = document.documentElement.dataset;
  return { theme: theme ?? "", mode: mode === "present" ? mode : "" };
}
