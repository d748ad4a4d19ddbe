import assert from "node:assert/strict";
import { test } from "node:test";

import { EDITOR, linkOf, parseSource, problemOf } from "#player/source.js";

const settings = { folder: "/home/me/my project/", editor: EDITOR };

test("a source line is an address of the reader's editor", () => {
  assert.deepEqual(parseSource("models/gpt.py:137 in GPT.logits"), { file: "models/gpt.py", line: "137", name: "GPT.logits" });
  assert.equal(linkOf("models/gpt.py:137 in GPT.logits", settings), "vscode://file/home/me/my%20project/models/gpt.py:137");
  const idea = { folder: "/x", editor: "idea://open?file={file}&line={line}" };
  assert.equal(linkOf("a/b.py:3 in f.<locals>.g", idea), "idea://open?file=/x/a/b.py&line=3");
});

test("without a folder there is no link", () => {
  assert.equal(linkOf("models/gpt.py:137 in f", { ...settings, folder: "" }), "");
});

test("a hostile trace leads nowhere else", () => {
  const hostile = [
    "../../etc/passwd.py:1 in f", "a/../../x.py:1 in f", "a\\..\\x.py:1 in f", "javascript:alert(1)", "x.py",
    "a\u0000.py:1 in f", "/etc/passwd:1 in f", "models/gpt.py:1e9 in f", "",
  ];
  for (const text of hostile) {
    assert.equal(linkOf(text, settings), "", text);
  }
  assert.equal(linkOf('a/b"><script>.py:1 in f', settings), "vscode://file/home/me/my%20project/a/b%22%3E%3Cscript%3E.py:1");
  assert.equal(linkOf("a/{line}$&?x#y.py:1 in f", settings), "vscode://file/home/me/my%20project/a/%7Bline%7D%24%26%3Fx%23y.py:1");
});

test("an editor's address is no script", () => {
  for (const editor of ["javascript:alert('{file}')", "data:text/html,{file}", "JavaScript:{file}", "no scheme {file}", "vscode://file"]) {
    assert.notEqual(problemOf(editor), "");
    assert.equal(linkOf("a/b.py:1 in f", { folder: "/x", editor }), "");
  }
  assert.equal(problemOf(EDITOR), "");
});
