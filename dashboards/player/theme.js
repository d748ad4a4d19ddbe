// Light or dark, still or moving: what the system wants, unless the reader says otherwise.

/** @typedef {"light" | "dark"} Theme */

const STORE = "zerosim-theme";

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

/** The theme that was chosen last; a page from a file may not remember. @returns {Theme | null} */
export function storedTheme() {
  try {
    const theme = localStorage.getItem(STORE);
    return theme === "light" || theme === "dark" ? theme : null;
  } catch {
    return null;
  }
}

/** @param {Theme} theme */
export function storeTheme(theme) {
  try {
    localStorage.setItem(STORE, theme);
  } catch {
    // Nothing is lost but the wish.
  }
}

/** @param {Theme} theme */
function prefers(theme) {
  return matchMedia(`(prefers-color-scheme: ${theme})`).matches;
}
