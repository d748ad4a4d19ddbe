/* global document, getComputedStyle, innerWidth, NodeFilter */
// What is wrong with where things stand on a page: texts on each other, off the screen, cut off, or a
// letter a line. What scrolls, and what is long and ends in dots, may be cut. Pictures on a canvas are not seen.
() => {
  const SHORT = 12; // letters: nothing is left of such a text that ends in dots
  const found = new Set();
  const boxes = new Map();
  const everywhere = { left: -1e6, top: -1e6, right: 1e6, bottom: 1e6, isShown: true, scrolls: false, dots: false, layer: null };

  /** Where an element may be seen at all, and how. */
  function boxOf(element) {
    if (!boxes.has(element)) {
      const style = getComputedStyle(element);
      const outer = element.parentElement ? boxOf(element.parentElement) : everywhere;
      const clips = style.overflowX !== "visible" && element !== document.body && element !== document.documentElement;
      const own = clips ? element.getBoundingClientRect() : outer;
      boxes.set(element, {
        left: Math.max(outer.left, own.left), top: Math.max(outer.top, own.top),
        right: Math.min(outer.right, own.right), bottom: Math.min(outer.bottom, own.bottom),
        isShown: outer.isShown && Number(style.opacity) > 0 && style.clipPath === "none"
          && element.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true }),
        scrolls: outer.scrolls || (clips && ["auto", "scroll"].includes(style.overflowX)),
        dots: outer.dots || style.textOverflow === "ellipsis" || element.matches("select"),
        layer: ["sticky", "fixed"].includes(style.position) || element.matches("dialog, details > :not(summary)") ? element : outer.layer,
      });
    }
    return boxes.get(element);
  }

  function nameOf(element, words) {
    return `${element.closest("[id]")?.id ?? "page"} > ${element.localName}: ${words.slice(0, 40)}`;
  }

  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const words = node.textContent.trim();
    const box = boxOf(element);
    if (!words || !box.isShown || element.closest("script, style, option, textarea")) {
      continue;
    }
    if (words.length < SHORT && getComputedStyle(element).textOverflow === "ellipsis" && element.scrollWidth > element.clientWidth + 1) {
      found.add(`a short text ends in dots: ${nameOf(element, words)}`);
    }
    const range = document.createRange();
    range.selectNodeContents(node);
    const lines = [...range.getClientRects()].filter(({ width, height }) => width > 1 && height > 1);
    if (lines.length > 3 && /[^\d\s]{2}/.test(words) && words.length > 12 && Math.max(...lines.map(({ width }) => width)) < 28) {
      found.add(`a letter a line: ${nameOf(element, words)}`);
    }
    for (const line of lines) {
      const left = Math.max(line.left, box.left), top = Math.max(line.top, box.top);
      const right = Math.min(line.right, box.right), bottom = Math.min(line.bottom, box.bottom);
      if (!box.scrolls && !box.dots && (line.right - right > 3 || left - line.left > 3)) {
        found.add(`cut off: ${nameOf(element, words)}`);
      }
      if (right - left > 2 && bottom - top > 4) {
        if (!box.scrolls && (right > innerWidth + 1 || left < -1)) {
          found.add(`off the screen: ${nameOf(element, words)}`);
        }
        texts.push({ left, top, right, bottom, node, element, words, layer: box.layer });
      }
    }
  }

  texts.sort((a, b) => a.top - b.top);
  for (const [i, a] of texts.entries()) {
    for (let j = i + 1; j < texts.length && texts[j].top < a.bottom; j += 1) {
      const b = texts[j];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (a.node !== b.node && a.layer === b.layer && wide > 2 && high > 0.35 * Math.min(a.bottom - a.top, b.bottom - b.top)) {
        found.add(`on each other: ${nameOf(a.element, a.words)} | ${nameOf(b.element, b.words)}`);
      }
    }
  }

  for (const control of document.querySelectorAll("button, a[href], select, input[type=text], input[type=number]")) {
    const box = boxOf(control);
    const { left, right, width } = control.getBoundingClientRect();
    if (box.isShown && width > 0 && !box.scrolls && (left < -1 || right > innerWidth + 1)) {
      found.add(`off the screen: ${nameOf(control, control.textContent.trim())}`);
    }
  }
  for (const picture of document.querySelectorAll(".host")) {
    const { bottom } = picture.getBoundingClientRect();
    if (boxOf(picture).isShown && bottom > picture.closest(".card").getBoundingClientRect().bottom + 1) {
      found.add(`reaches out of its card: ${nameOf(picture, "")}`);
    }
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) {
    found.add(`the page is ${document.documentElement.scrollWidth} px wide in a window of ${innerWidth}`);
  }
  return [...found];
}
