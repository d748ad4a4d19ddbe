"""A replay as one file: the same document, the same modules, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest

from tests.dashboards.samples import HOSTILE, put_trace
from zerosim.record import load
from zerosim.view.export import player
from zerosim.view.export.offline import offline_page
from zerosim.view.replay import replay_document

DOCUMENT = re.compile(
    r'<script type="application/json" id="replay-document">(.*?)</script>', re.DOTALL
)


def page_of(tmp_path, name="t"):
    folder = put_trace(tmp_path / "t", model=name)
    document = replay_document(load(folder), None, name)
    return document, offline_page(document)


@pytest.mark.parametrize("name", ["t", *HOSTILE])
def test_it_holds_the_document_whatever_its_names(tmp_path, name):
    document, page = page_of(tmp_path, name)
    (text,) = DOCUMENT.findall(page)
    assert json.loads(text) == json.loads(json.dumps(document))
    assert "<" not in text
    assert text.isascii()
    plain = offline_page(document | {"name": "t"})
    assert page.count("<script") == plain.count("<script")
    assert page.count("<img") == 0


def test_it_holds_every_module_and_they_are_the_servers(tmp_path):
    _, page = page_of(tmp_path)
    (text,) = re.findall(r'<script type="importmap">(.*?)</script>', page)
    imports = json.loads(text)["imports"]
    assert set(imports) == {f"#player/{name}" for name in player.modules()}
    for name, address in imports.items():
        head, _, data = address.partition(",")
        assert head == "data:text/javascript;base64"
        assert base64.b64decode(data).decode() == player.read(name.removeprefix("#player/"))


def test_it_asks_for_nothing(tmp_path):
    _, page = page_of(tmp_path)
    assert not re.search(r"https?://", page.replace("http://www.w3.org/", ""))
    assert not re.search(r'\bsrc="', page)
    assert re.findall(r'<link[^>]*href="([^"]*)"', page) == ["data:,"]
    assert not re.search(r"url\(|@import", "".join(map(player.read, player.STYLES)))


def test_its_policy_allows_its_own_scripts_alone(tmp_path):
    _, page = page_of(tmp_path)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    policy = policy.replace("&#x27;", "'")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "connect-src" not in rules
    assert "unsafe" not in policy
    inline = re.findall(r'<script type="(?:importmap|module)">(.*?)</script>', page)
    inline += re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    for text in inline:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert page.index("Content-Security-Policy") < page.index("<script")
