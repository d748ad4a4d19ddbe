// Light or dark, still or moving: the system's setting, unless the reader changes it.

/** @typedef {"light" | "dark"} Theme */

const STORE = "zerosim-theme";
const MODE_STORE = "zerosim-mode";
const MORE_STORE = "zerosim-more";

/**
 * The theme that is shown.
 * @param {Theme | null} chosen
 * @returns {Theme}
 */
export function effectiveTheme(chosen) {
  return chosen ?? (prefers("dark") ? "dark" : "light");
}

/** Whether the system asks for no motion. */
export function wantsStill() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/**
 * Mark the page for its style sheet.
 * @param {Theme | null} theme
 * @param {boolean} present
 */
export function markPage(theme, present) {
  const { dataset } = document.documentElement;
  dataset.theme = effectiveTheme(theme);
  dataset.mode = present ? "present" : "work";
}

/** Call back when the system changes its mind. @param {() => void} changed */
export function watchSystem(changed) {
  for (const query of ["(prefers-color-scheme: dark)", "(prefers-reduced-motion: reduce)"]) {
    matchMedia(query).addEventListener("change", changed);
  }
}

/** The theme that was chosen last. @returns {Theme | null} */
export function storedTheme() {
  const theme = read(STORE);
  return theme === "light" || theme === "dark" ? theme : null;
}

/** @param {Theme} theme */
export function storeTheme(theme) {
  write(STORE, theme);
}

/** Whether a page was last presented; one inside a lesson does as the lesson does.
 *  @returns {"work" | "present"} */
export function storedMode() {
  return read(MODE_STORE) === "present" && !("embed" in document.documentElement.dataset) ? "present" : "work";
}

/** @param {"work" | "present"} mode */
export function storeMode(mode) {
  write(MODE_STORE, mode);
}

/** Whether all there is was last shown, not the picture alone. */
export function storedMore() {
  return read(MORE_STORE) === "1";
}

/** Show all there is, or the picture with one line. @param {boolean} more */
export function showMore(more) {
  const { dataset } = document.documentElement;
  if (more) {
    dataset.more = "1";
  } else {
    delete dataset.more;
  }
}

/** @param {boolean} more */
export function storeMore(more) {
  write(MORE_STORE, more ? "1" : "");
}

/** The stored setting; a page from a file may have no storage. @param {string} name */
function read(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** @param {string} name @param {string} value */
function write(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Nothing is lost but the wish.
  }
}

/** @param {Theme} theme */
function prefers(theme) {
  return matchMedia(`(prefers-color-scheme: ${theme})`).matches;
}
