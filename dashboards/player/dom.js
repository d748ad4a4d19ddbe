// Elements by name, and text into them. Strings of a trace are text: never markup.

/**
 * The one element that fits, of the class that is expected.
 * @template {Element} T
 * @param {ParentNode} root
 * @param {string} selector
 * @param {new () => T} type
 * @returns {T}
 */
export function find(root, selector, type) {
  const element = root.querySelector(selector);
  if (!(element instanceof type)) {
    throw new Error(`player.html has no ${type.name} at ${selector}`);
  }
  return element;
}

/**
 * A new element with text or other elements in it.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name
 * @param {string} className
 * @param {(string | Node)[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(name, className, ...children) {
  const element = document.createElement(name);
  if (className) {
    element.className = className;
  }
  element.append(...children);
  return element;
}

/**
 * Write a text if it changed; a screen reader announces only changes.
 * @param {Element} element
 * @param {string} text
 */
export function write(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/**
 * Fill a list to choose from.
 * @param {HTMLSelectElement} select
 * @param {readonly (readonly [value: string, label: string])[]} options
 */
export function fillSelect(select, options) {
  select.replaceChildren(...options.map(([value, label]) => new Option(label, value)));
}

/**
 * Whether a button is pressed.
 * @param {ParentNode} root
 * @param {string} selector
 * @param {boolean} pressed
 */
export function setPressed(root, selector, pressed) {
  find(root, selector, HTMLElement).setAttribute("aria-pressed", String(pressed));
}

/**
 * The interface of a ready page for scripts, such as those that export it. Its root marks it as ready.
 * @param {"__player" | "__graph"} name of `window`
 * @param {object} value
 */
export function offer(name, value) {
  Object.defineProperty(window, name, { configurable: true, value: Object.freeze(value) });
  document.documentElement.dataset.ready = "";
}

/**
 * Scrolls a box to its top, without reading its position, which would force a layout.
 * @param {HTMLElement} box
 * @returns {() => void}
 */
export function returnsToTop(box) {
  let isMoved = false;
  box.addEventListener("scroll", () => { isMoved = true; }, { passive: true });
  return () => {
    if (isMoved) {
      box.scrollTop = 0;
      isMoved = false;
    }
  };
}
