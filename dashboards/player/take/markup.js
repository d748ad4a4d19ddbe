// An SVG as text. Its input is text, never markup: names of a trace stay names.

/** What may not stand in an attribute or a text; XML knows no other control characters. */
const ESCAPES = /** @type {Record<string, string>} */ ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" });
// eslint-disable-next-line no-control-regex
const UNKNOWN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Surrogate}/gu;

/** @param {string} text */
export function escape(text) {
  return text.replace(UNKNOWN, "\ufffd").replace(/[&<>"']/g, (found) => ESCAPES[found]);
}

/** @param {Record<string, string | number | undefined>} given those without a value are left out */
export function attributes(given) {
  return Object.entries(given)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${name}="${typeof value === "number" ? Math.round(value * 100) / 100 : escape(value ?? "")}"`)
    .join("");
}

/** What all pens of a picture write in together: its size, its tiles and its clips. */
export class Markup {
  /** @param {number} width @param {number} height */
  constructor(width, height) {
    this.width = width;
    this.height = height;
    /** @type {Map<string, {id: string, text: string}>} */
    this.shared = new Map();
  }

  /** @param {string} name @param {Record<string, string | number | undefined>} given @param {string} [text] */
  element(name, given, text) {
    return text === undefined ? `<${name}${attributes(given)}/>` : `<${name}${attributes(given)}>${escape(text)}</${name}>`;
  }

  /** @param {string} key @param {number} size @param {() => string[]} draw @returns {string} its id */
  tile(key, size, draw) {
    return this.share(`tile ${key}`, (id) => {
      const given = { id, width: size, height: size, patternUnits: "userSpaceOnUse" };
      return `<pattern${attributes(given)}>${draw().join("")}</pattern>`;
    });
  }

  /** @param {string} d @param {readonly number[]} matrix @param {string} inside another one, or ""
   *  @returns {string} its id */
  clip(d, matrix, inside) {
    return this.share(`clip ${d} ${matrix} ${inside}`, (id) => {
      const within = inside ? `url(#${inside})` : undefined;
      const path = this.element("path", { d, transform: `matrix(${matrix.join(" ")})` });
      return `<clipPath${attributes({ id, "clip-path": within })}>${path}</clipPath>`;
    });
  }

  /** @param {string} key @param {(id: string) => string} write */
  share(key, write) {
    let found = this.shared.get(key);
    if (!found) {
      found = { id: `z${this.shared.size}`, text: "" };
      this.shared.set(key, found); // before what it is made of takes a number
      found.text = write(found.id);
    }
    return found.id;
  }

  /** The whole picture. @param {string[]} parts @param {string} title @param {string} description */
  document(parts, title, description) {
    const { width, height } = this;
    const given = { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img" };
    const defs = [...this.shared.values()].map(({ text }) => text);
    return [
      `<svg${attributes(given)}>`,
      this.element("title", {}, title),
      this.element("desc", {}, description),
      ...(defs.length > 0 ? ["<defs>", ...defs, "</defs>"] : []),
      ...parts,
      "</svg>\n",
    ].join("\n");
  }
}
