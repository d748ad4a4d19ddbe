// The surroundings of the replay: the run, its verdict, warnings, and the list of iterations.

import { iterationSearch } from "#player/address.js";
import { fillSelect, find, make, write } from "#player/dom.js";
import { formatCount, formatDecimal, formatExact, joinDots } from "#player/format.js";
import { fillMark } from "#player/outcome.js";
import { named, say } from "#player/words.js";

/** @import { ReplayDocument } from "#player/types.d.ts" */

/**
 * Fill the header from a document.
 * @param {HTMLElement} root
 * @param {ReplayDocument} doc
 * @param {boolean} embedded in an offline page, which has one iteration and no other pages
 */
export function fillShell(root, doc, embedded) {
  const { run, verdict, notes, broken } = doc;
  document.title = joinDots([doc.name, named(run.stage_name), "zerosim"]);
  write(find(root, "#run-text", HTMLElement), summary(doc));
  fillMark(find(root, "#run-mark", HTMLElement), verdict.outcome);
  const button = find(root, "#run", HTMLButtonElement);
  button.title = `${verdict.headline} (r)`;
  button.hidden = false;
  show(root, "#broken", broken && say("shell.the_replay_ends_at_step", { step: broken.step + 1, reason: broken.reason }));
  show(root, "#notes", notes.join(" · "));
  fillFacts(find(root, "#run-facts", HTMLElement), doc);
  if (embedded) {
    for (const link of root.querySelectorAll(".top a")) {
      link.removeAttribute("href");
    }
  } else if (run.iterations.length > 1) {
    fillIterations(root, doc);
  }
}

/** The run in a line. @param {ReplayDocument} doc */
export function summary({ run, ranks }) {
  return joinDots([
    run.model,
    named(run.stage_name),
    say(ranks.length === run.num_ranks ? "shell.num_ranks" : "shell.some_ranks", { some: ranks.length, num: run.num_ranks }),
    run.algorithm === run.backend ? run.backend : say("shell.on", { algorithm: run.algorithm, backend: run.backend }),
    run.num_parameters > 0 && say("shell.parameters", { num_parameters: formatCount(run.num_parameters) }),
  ]);
}

/** @param {HTMLElement} root @param {ReplayDocument} doc */
function fillIterations(root, { run }) {
  const select = find(root, "#iteration", HTMLSelectElement);
  fillSelect(select, run.iterations.map((one) => [String(one), String(one)]));
  select.value = String(run.iteration);
  select.addEventListener("change", () => {
    const hash = location.hash.replace(/([#&])(beat|at|end|tour)=[^&]*&?/g, "$1");
    location.assign(iterationSearch(location.search, Number(select.value)) + hash);
  });
  find(root, "#iteration-label", HTMLElement).hidden = false;
}

/** @param {HTMLElement} list @param {ReplayDocument} doc */
function fillFacts(list, { name, run, verdict, notes, units, ranks }) {
  /** @type {[string, string][]} */
  const facts = [
    [say("shell.verdict"), joinDots([named(verdict.outcome ?? ""), verdict.headline])],
    [say("shell.trace"), name],
    [say("shell.model"), joinDots([run.model, say("shell.units", { units: units.length })])],
    [say("shell.parameters_2"), run.num_parameters > 0 ? formatExact(run.num_parameters) : ""],
    [say("shell.stage"), named(run.stage_name)],
    [say("shell.compute_dtype"), joinDots([run.dtype, say("shell.b_each", { bytes: run.element_bytes })])],
    [say("shell.ranks"), ranks.length === run.num_ranks ? String(run.num_ranks) : say("shell.of", { ranks: ranks.length, ranks_2: run.num_ranks })],
    [say("shell.collectives"), joinDots([run.algorithm, run.backend, run.device])],
    [say("shell.iteration"), String(run.iteration)],
    [say("shell.micro_steps"), run.accumulate > 1 ? String(run.accumulate) : ""],
    [say("shell.mean_loss"), run.loss === null ? "" : formatDecimal(run.loss, 4)],
    [say("shell.notes"), notes.join(" ")],
  ];
  for (const [term, value] of facts) {
    if (value) {
      list.append(make("dt", "", term), make("dd", "", value));
    }
  }
}

/** @param {HTMLElement} root @param {string} selector @param {string | null} text */
function show(root, selector, text) {
  const element = find(root, selector, HTMLElement);
  element.hidden = !text;
  write(element, text ?? "");
  element.title = text ?? "";
}
