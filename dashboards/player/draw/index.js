// The views that draw the player on canvases: `createViews`, and the stage's legend.

import { MemoryView } from "#player/draw/memory.js";
import { Scrubber } from "#player/draw/scrubber.js";
import { Stage } from "#player/draw/stage.js";
import { TimelineView } from "#player/draw/timeline.js";
import { TrafficView } from "#player/draw/traffic.js";

export { legend } from "#player/draw/legend.js";

/** @import { View } from "#player/draw/layer.js" */
/** @import { Hosts, Scene, ViewCallbacks, Views } from "#player/scene.d.ts" */

/**
 * Draw in the page's elements. They must be positioned and have a size.
 * @param {Hosts} hosts
 * @param {ViewCallbacks} callbacks
 * @returns {Views & {destroy(): void}}
 */
export function createViews(hosts, callbacks) {
  /** @type {View[]} */
  const views = [
    new Stage(hosts.stage, callbacks),
    new Scrubber(hosts.scrubber, callbacks),
    new TimelineView(hosts.timeline, callbacks),
    new TrafficView(hosts.traffic),
    new MemoryView(hosts.memory),
  ];
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
    destroy() {
      observer.disconnect();
      views.forEach((view) => view.destroy());
    },
  };
}
