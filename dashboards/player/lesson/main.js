// Starts a lesson in the page that loads it.

import { LessonPage } from "#player/lesson/page.js";

const root = document.getElementById("lesson");
if (root) {
  new LessonPage(root).start();
}
