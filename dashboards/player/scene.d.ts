/**
 * The types shared by the player's modules: the model (a checked document, ready for drawing), the scene (the
 * contents of one frame) and the views (which draw it). Ranks are positions in
 * `doc.ranks`, never global ranks.
 */

import type { MagnifierLayout } from "#player/draw/magnifierlayout.js";
import type { Magnified } from "#player/lens/magnify.js";
import type { Phase, ReplayDocument, Tier } from "#player/types.d.ts";

/** Steps of one phase that follow each other: `first` and `last` belong to it. */
export interface PhaseSpan {
  phase: Phase;
  first: number;
  last: number;
}

/** What a cursor goes along: the steps of a replay, the moments of a comparison. */
export interface Track {
  numSteps: number;
  /** Where it ends: the last step, or the one at which the trace breaks a law. */
  lastStep: number;
  /** time_ns by step. */
  times: Float64Array;
  /** In the order of the iteration; with accumulation forward and backward alternate. */
  phases: PhaseSpan[];
  /** Which of `phases` a step belongs to. */
  phaseOf: Int32Array;
  /** By beat, the step that it is about; a comparison has a beat for each moment. */
  beatMain: Int32Array;
  /** Which beat a step belongs to. */
  beatOf: Int32Array;
  /** How long a step is shown while playing, ms at speed 1: beat by beat, and hop by hop. */
  stepMs: Float64Array;
  hopMs: Float64Array;
  /** Messages and copies of a step. */
  numPackets: Int32Array;
}

/** A beat's result: the last of its steps that gathers or reduces, and the step at which the result is here. */
export interface Result {
  position: number;
  after: number;
}

/** A checked document, with typed arrays of the data for every frame. */
export interface Model extends Track {
  doc: ReplayDocument;
  numRanks: number;
  numUnits: number;
  numStates: number;
  numShards: number;
  /** Cells before the first step. */
  initial: Uint8Array;
  /**
   * Changes of step k are entries changeStart[k] .. changeStart[k + 1] - 1 of the three arrays
   * below: the cell, its code from this step on, and its code before.
   */
  changeStart: Int32Array;
  changeCell: Int32Array;
  changeAfter: Uint8Array;
  changeBefore: Uint8Array;
  /** Bytes sent before step k by rank r: [k * numRanks + r]; row numSteps holds the totals. */
  sentBefore: Float64Array;
  /** The same by link of `doc.traffic.links`, in their order: what went over it. */
  movedBefore: Float64Array[];
  /** The tiers in which states can lie, in order. */
  tiers: Tier[];
  /** By beat. */
  results: (Result | null)[];
}

/** The contents of one frame. */
export interface Scene {
  model: Model;
  document: ReplayDocument;
  /** The step that is shown and told: of a beat that plays always one that the beat is about. */
  position: number;
  /** 0..1 while the step plays; null at rest: packets stand half-way, the cursor at time_ns. */
  tween: number | null;
  /** Where time is: another step of the beat while that goes on beside it. */
  now: { position: number; tween: number | null };
  /** Codes of all cells, the changes of the current step included. Read it, do not keep it. */
  cells: Uint8Array;
  /** The end of the current step is shown: what it frees is gone, what its beat gathers or reduces is here. */
  isOver: boolean;
  /** Hop by hop, each with its own words; else beat by beat. */
  hops: boolean;
  /** The stop of a tour that is shown, from 0; -1 off tour. */
  tour: number;
  /** Steps with beats to mark in the strip: the tour's, or the results of a search. */
  marks: readonly number[];
  /** Bytes sent by rank: by all steps before, and by the played part of the current one. */
  sent: Float64Array;
  /** The selected rank. */
  rank: number;
  theme: "light" | "dark";
  present: boolean;
  /** No motion: steps change at once. */
  reduced: boolean;
  /** Steps at which a breakpoint matches, ascending. */
  breakpoints: number[];
}

/** A scrubber's part of a scene. */
export interface TrackScene extends Pick<Scene, "position" | "tween" | "theme" | "present" | "breakpoints"> {
  model: Track;
}

/** The elements in which the views draw; the player's page owns them and gives them a size. */
export interface Hosts {
  stage: HTMLElement;
  timeline: HTMLElement;
  traffic: HTMLElement;
  memory: HTMLElement;
}

/** The requests of a view when the user points at it. */
export interface ViewCallbacks {
  /** A moment on the timeline of one rank (a position in `ranks`). */
  onSeekTime(ns: number, rank: number): void;
  onSelectRank(rank: number): void;
}

export interface Views {
  /** Once a frame while playing, and once after each change. */
  render(scene: Scene): void;
  /** A host has another size; the next `render` follows. */
  resize(): void;
  /** What the magnifier holds, and where: null before the first frame. */
  shown(): { magnified: Magnified | null; layout: MagnifierLayout | null };
}

/** `createViews` of `draw/index.js`. */
export type CreateViews = (hosts: Hosts, callbacks: ViewCallbacks, regions: import("#player/regions.js").Regions) => Views;
