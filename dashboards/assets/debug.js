// The page of paused ranks: polls their positions, offers the terminal's commands, and shows Replay of past
// steps. A command is sent as typed.
/* global document, fetch, location, setTimeout, crypto, URLSearchParams, HTMLButtonElement, HTMLElement */

import { named, say } from "#player/words.js";

const LOOK_EVERY_MS = 400;
const KEYS = { n: "over", i: "into", o: "out", f: "phase", e: "iteration", c: "continue", a: "pause" };
const TYPED = "input, select, textarea";
const ENDED = say("assets.debug.the_command_has_ended_the_ranks");
const key = new URLSearchParams(location.search).get("key") ?? "";
const who = crypto.randomUUID();
const at = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));
const said = at("held-said");
const lines = at("held-lines");
const frame = at("held-replay");
const whom = at("held-whom");
const buttons = [...document.querySelectorAll("button[data-what]")];
const tabs = [...document.querySelectorAll("[role=tab]")];
let version = -1;
let refused = "";
const shown = { ranks: "", stops: "" };
/** The inspected role and unit, on all ranks; "" for none. */
let looked = "";
/** For the ranks' positions, and for the open view: an older response does not replace a newer one. */
const looks = turns();
const inspections = turns();

/** Numbers requests; each tells, on its response, whether no later one has been answered before. */
function turns() {
  let last = 0;
  let newest = 0;
  return () => {
    last += 1;
    const mine = last;
    return () => {
      newest = Math.max(newest, mine);
      return mine === newest;
    };
  };
}

// ------------------------------------------------------------------------------ commands

/** Send a command; returns its reply, or the error. @param {string} what */
async function send(what) {
  const answer = await fetch("/api/debug", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ key, who, what }),
  }).catch(() => null);
  const body = await answer?.json().catch(() => null);
  return answer?.ok ? body : { error: body?.error ?? ENDED, lines: [], table: null };
}

/** A step, or a command that controls how ranks run. @param {string} what */
async function act(what) {
  const alone = whom.value !== "" && what !== "pause" && what !== "detach";
  refused = (await send(alone ? `only ${whom.value} ${what}` : what)).error ?? "";
  await look();
}

/** Show the outcome of a command beside its field; true if it succeeded. */
async function tell(/** @type {string} */ what, /** @type {HTMLElement} */ where) {
  const reply = await send(what);
  where.textContent = reply.error ?? reply.lines.map((/** @type {string} */ one) => one.trim()).join("\n");
  where.classList.toggle("wrong", Boolean(reply.error));
  return !reply.error;
}

// --------------------------------------------------------------------------------- state

async function look() {
  const isInTime = looks();
  const answer = await fetch(`/api/debug?${new URLSearchParams({ key, who })}`).catch(() => null);
  const state = await answer?.json().catch(() => null);
  if (!isInTime()) {
    return;
  }
  if (!answer?.ok || state === null) {
    said.textContent = state?.error ?? ENDED;
    disable(() => true);
    mayLook(false, false);
    return;
  }
  const watches = state.others_steer && !state.steers;
  said.textContent = refused || sentence(state, watches);
  disable((what) => {
    const useless = what !== "detach" && (what === "pause") !== state.goes;
    return state.over || watches || useless || (what === "continue" && whom.value !== "");
  });
  mayLook(!state.over && !state.goes, !state.over && !watches);
  showRanks(state.ranks);
  showElsewhere(state.elsewhere);
  showStops(state.stops);
  if (state.version !== version && !state.goes) {
    version = state.version;
    lines.textContent = state.lines.join("\n");
    show(state);
    if (!state.over) {
      await inspect();
    }
  }
}

function sentence(state, watches) {
  if (state.over) {
    return say("assets.debug.nobody_holds_the_ranks_any_more");
  }
  const going = state.goes ? say("assets.debug.the_ranks_are_going") : say("assets.debug.the_ranks_stand");
  return watches ? say("assets.debug.another_page_steers_this_one_watches", { going }) : going;
}

/** @param {(what: string) => boolean} when */
function disable(when) {
  for (const button of buttons) {
    if (button instanceof HTMLButtonElement) {
      button.disabled = when(button.dataset.what ?? "");
    }
  }
}

/** Queries need paused ranks; control needs the controlling page. */
function mayLook(/** @type {boolean} */ asks, /** @type {boolean} */ changes) {
  for (const one of document.querySelectorAll("#view-holds :is(button, select, input), #held-stack")) {
    /** @type {any} */ (one).disabled = !asks || (one.id === "held-sum" && !changes);
  }
  for (const one of document.querySelectorAll("#view-stops :is(button, select, input)")) {
    /** @type {any} */ (one).disabled = !changes;
  }
  whom.disabled = !changes;
}

/** Replay shows the recordings of this host. @param {number[]} ranks that record on others */
function showElsewhere(ranks) {
  const where = at("held-elsewhere");
  where.hidden = !ranks.length;
  where.textContent = say("assets.debug.elsewhere", { num: ranks.length, ranks: ranks.join(", ") });
}

/** Replay of the iteration so far, at its last beat. */
function show(state) {
  const begun = state.iteration !== null && state.replay !== "" && state.beat > 0;
  frame.hidden = !begun;
  at("held-nothing").hidden = begun;
  if (begun) {
    frame.src = `${state.replay}&iteration=${state.iteration}&stop=${state.version}#beat=${state.beat}`;
  }
}

function showRanks(/** @type {number[]} */ ranks) {
  const text = ranks.join();
  if (text === shown.ranks || !ranks.length) {
    return;
  }
  shown.ranks = text;
  const choices = (/** @type {string} */ after) => ranks.map((rank) => choice(String(rank), say("assets.debug.rank", { rank, after })));
  whom.replaceChildren(whom.options[0], ...choices(say("assets.debug.alone")));
  at("held-rank").replaceChildren(...choices(""));
  at("held-stack").replaceChildren(at("held-stack").options[0], ...choices(say("assets.debug.all_threads")));
}

function choice(/** @type {string} */ value, /** @type {string} */ words) {
  const made = document.createElement("option");
  made.value = value;
  made.textContent = words;
  return made;
}

function showStops(/** @type {Record<string, string>} */ stops) {
  const text = JSON.stringify(stops);
  if (text === shown.stops) {
    return;
  }
  shown.stops = text;
  at("held-none").hidden = Object.keys(stops).length > 0;
  at("held-stops").replaceChildren(...Object.entries(stops).map(([name, words]) => {
    const line = document.createElement("li");
    const code = document.createElement("code");
    const remove = document.createElement("button");
    code.textContent = words;
    remove.type = "button";
    remove.textContent = say("assets.debug.remove_it");
    remove.setAttribute("aria-label", say("assets.debug.remove", { name, words }));
    remove.addEventListener("click", async () => {
      await tell(say("assets.debug.delete", { name }), at("held-stopped"));
      await look();
    });
    line.append(`${name}: `, code, remove);
    return line;
  }));
}

// ------------------------------------------------------------------------------- looking

/** Update the open view to the ranks' current positions. */
async function inspect() {
  const isInTime = inspections();
  const open = tabs.find((tab) => tab.getAttribute("aria-selected") === "true")?.id;
  if (open === "tab-holds") {
    const reply = await send(`tensors ${at("held-rank").value || "0"}`);
    if (isInTime()) {
      tabulate(at("held-tensors"), reply, true);
      await across(isInTime);
    }
  } else if (open === "tab-stands") {
    const rank = at("held-stack").value;
    const reply = await send(rank === "" ? "where" : `stack ${rank}`);
    if (isInTime()) {
      at("held-where").textContent = reply.error ?? reply.lines.join("\n");
    }
  }
}

/** The inspected tensors, on all ranks. @param {() => boolean} isInTime */
async function across(isInTime) {
  at("held-across").hidden = looked === "";
  if (looked !== "") {
    const title = say("assets.debug.on_all_ranks", { looked });
    const reply = await send(`look ${looked}`);
    if (isInTime()) {
      tabulate(at("held-across"), reply, false, title);
    }
  }
}

/** A reply's table; of tensors each row has a button that shows the same on all ranks. */
function tabulate(/** @type {HTMLElement} */ where, reply, /** @type {boolean} */ canLook, title = "") {
  if (!reply.table) {
    where.textContent = reply.error ?? "";
    return;
  }
  const table = document.createElement("table");
  const heads = table.createTHead().insertRow();
  for (const head of canLook ? ["", ...reply.table.heads] : reply.table.heads) {
    const cell = document.createElement(head ? "th" : "td");
    cell.textContent = head;
    heads.append(cell);
  }
  const body = table.createTBody();
  for (const row of reply.table.rows) {
    const line = body.insertRow();
    if (canLook) {
      line.insertCell().append(looker(row[0], row[1]));
    }
    for (const text of row) {
      line.insertCell().textContent = text;
    }
  }
  const name = document.createElement("h2");
  name.textContent = title;
  where.replaceChildren(...(title ? [name] : []), table);
}

function looker(/** @type {string} */ role, /** @type {string} */ unit) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = say("assets.debug.all_ranks");
  made.setAttribute("aria-label", say("assets.debug.of_on_all_ranks", { role: named(role), unit: unit || say("assets.debug.no_unit") }));
  made.addEventListener("click", async () => {
    looked = `${role} ${unit}`.trim();
    await across(inspections());
    at("held-across").scrollIntoView({ block: "nearest" });
  });
  return made;
}

// -------------------------------------------------------------------------------- inputs

function open(/** @type {Element} */ chosen) {
  for (const tab of tabs) {
    const is = tab === chosen;
    tab.setAttribute("aria-selected", String(is));
    tab.setAttribute("tabindex", is ? "0" : "-1");
    at(tab.getAttribute("aria-controls") ?? "").hidden = !is;
  }
  inspect();
}

for (const [place, tab] of tabs.entries()) {
  tab.addEventListener("click", () => open(tab));
  tab.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[/** @type {any} */ (event).key];
    if (by) {
      const next = /** @type {HTMLElement} */ (tabs[(place + by + tabs.length) % tabs.length]);
      next.focus();
      open(next);
    }
  });
}
for (const button of buttons) {
  button.addEventListener("click", () => act(/** @type {HTMLElement} */ (button).dataset.what ?? ""));
}
for (const one of [at("held-rank"), at("held-stack")]) {
  one.addEventListener("change", inspect);
}
whom.addEventListener("change", look);
document.querySelector("[data-ask=check]")?.addEventListener("click", () => tell("check", at("held-answer")));
at("held-sum").addEventListener("click", async () => {
  if (await tell("check sum", at("held-answer"))) {
    at("held-answer").textContent = say("assets.debug.it_is_said_above_when_the");
  }
  await look();
});

/** @param {string} id @param {(form: any) => Promise<unknown>} does */
function submits(id, does) {
  at(id).addEventListener("submit", async (/** @type {Event} */ event) => {
    event.preventDefault();
    await does(at(id));
    await look();
  });
}

submits("held-print", (form) => tell(`print ${form.querySelector("input").value}`, at("held-answer")));
submits("held-break", async (form) => {
  const field = form.querySelector("input");
  if (await tell(`break ${field.value}`, at("held-stopped"))) {
    field.value = "";
  }
});
submits("held-watch", (form) => {
  const limit = form.querySelector("input").value;
  const what = form.querySelector("select").value;
  const needs = !form.querySelector("label[hidden]");
  return tell(needs ? `watch ${what}>${limit}` : `watch ${what}`, at("held-stopped"));
});
at("held-watch").querySelector("select").addEventListener("change", (/** @type {any} */ event) => {
  const chosen = event.target.selectedOptions[0];
  const field = at("held-watch").querySelector("label + label");
  field.hidden = !chosen.dataset.limit;
  field.querySelector("input").value = chosen.dataset.limit ?? "";
  field.querySelector("span").textContent = chosen.dataset.unit ?? "";
});

document.addEventListener("keydown", (event) => {
  const what = KEYS[event.key];
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  const types = event.target instanceof HTMLElement && event.target.matches(TYPED);
  const button = buttons.find((one) => one instanceof HTMLElement && one.dataset.what === what);
  if (what && plain && !types && button instanceof HTMLButtonElement && !button.disabled) {
    act(what);
  }
});

async function keepLooking() {
  await look();
  setTimeout(keepLooking, LOOK_EVERY_MS);
}
keepLooking();
