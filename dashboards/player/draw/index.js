// The views that draw the player on canvases: `createViews`, and the stage's legend.

import { MemoryView } from "#player/draw/memory.js";
import { Stage } from "#player/draw/stage.js";
import { TimelineView } from "#player/draw/timeline.js";
import { TrafficView } from "#player/draw/traffic.js";
import { say } from "#player/words.js";

export { legend } from "#player/draw/legend.js";

/** @import { Drawing, Regions } from "#player/regions.js" */
/** @import { View } from "#player/draw/layer.js" */
/** @import { Hosts, Scene, ViewCallbacks, Views } from "#player/scene.d.ts" */

/** What a screen reader calls them. @type {Readonly<Record<keyof Hosts, string>>} */
const LABELS = { stage: say("draw.index.ranks"), timeline: say("draw.index.timeline"), traffic: say("draw.index.traffic_sent"), memory: say("draw.index.memory") };
/** Each figure, by the name of its host. @type {Record<keyof Hosts, (host: HTMLElement, callbacks: ViewCallbacks) => View & Drawing>} */
const FIGURES = {
  stage: (host, callbacks) => new Stage(host, callbacks),
  timeline: (host, callbacks) => new TimelineView(host, callbacks),
  traffic: (host) => new TrafficView(host),
  memory: (host) => new MemoryView(host),
};

/** One figure alone. @param {keyof Hosts} name @param {HTMLElement} host @param {ViewCallbacks} callbacks */
export function createView(name, host, callbacks) {
  return FIGURES[name](host, callbacks);
}

/**
 * Draw in the page's elements. They must be positioned and have a size.
 * @param {Hosts} hosts
 * @param {ViewCallbacks} callbacks
 * @param {Regions} regions that they register their contents in
 * @returns {Views & {destroy(): void}}
 */
export function createViews(hosts, callbacks, regions) {
  const names = /** @type {(keyof Hosts)[]} */ (Object.keys(FIGURES));
  const views = names.map((name) => {
    const view = createView(name, hosts[name], callbacks);
    regions.register(hosts[name], LABELS[name], view);
    return view;
  });
  const stage = /** @type {Stage} */ (views[names.indexOf("stage")]);
  /** @type {Scene | null} */
  let last = null;
  const resize = () => views.forEach((view) => view.resize());
  /** @param {Scene} scene */
  const render = (scene) => {
    last = scene;
    for (const view of views) {
      view.render(scene);
    }
  };
  const observer = new ResizeObserver(() => {
    resize();
    if (last) {
      render(last);
    }
  });
  Object.values(hosts).forEach((host) => observer.observe(host));
  return {
    render,
    resize,
    shown: () => stage.shown(),
    destroy() {
      observer.disconnect();
      views.forEach((view) => view.destroy());
    },
  };
}
