// The switch of the language, a link of the server's: it leads to the same place in the other one.
// The server keeps the choice; a page that is a file has no switch.

/** The link, if there is one. */
function link() {
  const found = document.getElementById("language");
  return found instanceof HTMLAnchorElement ? found : null;
}

/** @param {HTMLAnchorElement} to */
function aim(to) {
  const query = new URLSearchParams(location.search);
  query.set("lang", to.hreflang.split("-")[0]);
  to.href = `?${query}${location.hash}`;
}

/** Make the link lead to the page displayed when it is followed. */
export function watchLanguage() {
  const to = link();
  for (const event of /** @type {const} */ (["pointerdown", "click", "focus"])) {
    to?.addEventListener(event, () => aim(to));
  }
}

/** Show the page in the other language. */
export function switchLanguage() {
  link()?.click();
}

/** Whether there is another language to switch to. */
export function hasLanguages() {
  return link() !== null;
}
