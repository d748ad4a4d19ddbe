// The address of a page with a cursor: it follows the page's place, a moment later, since a browser limits
// address changes per second; and the page follows it.

/** How long after the last change it is written. */
const WAIT_MS = 300;
/** What a page around this one asks for, before it reads the address or sends us elsewhere. */
const WANTED = "addresswanted";

/** Ask the page in a frame to write its address now, whatever it is doing. @param {Window} inside */
export function askForAddress(inside) {
  inside.dispatchEvent(new Event(WANTED));
}

export class Fragment {
  /**
   * @param {() => string} format the place as a fragment, with the "#"; "" for the default place
   * @param {() => void} follow go where the address says
   */
  constructor(format, follow) {
    this.format = format;
    this.timer = 0;
    /** As last read or written; if it differs, the user navigated. */
    this.known = location.hash;
    addEventListener("hashchange", () => {
      this.read();
      follow();
    });
    addEventListener(WANTED, () => this.write());
  }

  /** What is asked for; whatever was still to be written is no longer where we are. */
  read() {
    clearTimeout(this.timer);
    this.known = location.hash;
    return this.known;
  }

  writeSoon() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.write(), WAIT_MS);
  }

  write() {
    clearTimeout(this.timer);
    const hash = this.format();
    if (hash !== location.hash && location.hash === this.known) {
      history.replaceState(history.state, "", hash || location.pathname + location.search);
      this.known = location.hash;
    }
  }
}
