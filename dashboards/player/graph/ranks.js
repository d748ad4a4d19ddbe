// Each rank's time by cause: a bar for each, and the largest cause of its exposed communication.

import { find, make, write } from "#player/dom.js";
import { formatDuration, formatTime } from "#player/format.js";
import { TEXTS, timesOf } from "#player/graph/words.js";
import { named, say } from "#player/words.js";

/** @import { GraphModel } from "#player/graph/model.js" */

/** @typedef {"compute" | "still" | "copying" | "missing" | "other"} Sort */

/**
 * A bar cut in shares.
 * @param {readonly {sort: Sort, ns: number}[]} shares
 * @param {number} whole ns that the full width is
 */
export function shareBar(shares, whole) {
  const bar = make("div", "share-bar");
  bar.setAttribute("aria-hidden", "true");
  for (const { sort, ns } of shares) {
    const part = make("span", sort);
    part.style.width = `${(100 * ns) / Math.max(1, whole)}%`;
    bar.append(part);
  }
  return bar;
}

/** @param {HTMLElement} root @param {GraphModel} model */
export function fillRanks(root, { doc }) {
  const list = find(root, "#rank-bars", HTMLElement);
  const { ranks, exposed } = doc.time;
  if (ranks.length === 0) {
    list.replaceChildren(make("li", "", TEXTS.timeNotKnown));
    return;
  }
  const times = timesOf(doc.time);
  write(find(root, "#rank-figures", HTMLElement), TEXTS.predicted(TEXTS.exposed, doc.is_predicted));
  find(root, "#rank-legend", HTMLElement).replaceChildren(
    ...times.map(({ name, sort }) => make("li", "", make("i", `key ${sort}`), name)),
  );
  const longest = Math.max(...ranks.map((one) => one.wall_ns));
  list.replaceChildren(
    ...ranks.map((time, rank) => {
      const shares = times.map(({ field, sort }) => ({ sort, ns: time[field] }));
      const most = exposed.find((one) => one.rank === rank);
      const item = make(
        "li",
        "",
        make("span", "name", TEXTS.rank(doc.ranks[rank])),
        shareBar(shares, longest),
        make("span", "figure", formatDuration(time.exposed_ns)),
      );
      const words = times.map(({ field, name }) => `${name} ${formatTime(time[field], doc.is_predicted)}`);
      const cause = most && say("graph.ranks.most_of_it_in", { purpose: named(most.purpose), phase: named(most.phase) });
      item.title = [...words, cause].filter(Boolean).join(", ");
      item.append(make("span", "unseen", item.title));
      return item;
    }),
  );
}
