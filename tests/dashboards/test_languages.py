"""Each browser reads its own language: by its address, else by the cookie that one left."""

import json
import re

import pytest

from tests.dashboards.samples import put_trace
from zerosim.base.language import Language, speaking
from zerosim.dashboards.away import StandalonePages
from zerosim.dashboards.languages import ASKED
from zerosim.record import load
from zerosim.view.export import player
from zerosim.view.export.offline import offline_page
from zerosim.view.replay import replay_document

PAGES = ("/replay", "/compare", "/verify", "/graph", "/plan", "/lessons", "/room", "/join")


def tag_of(page):
    return re.search(r'<html lang="([^"]+)"', page)[1]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_english_until_somebody_chooses(client, path):
    answer = client.get(path, headers={"Accept-Language": "zh-CN,zh"}, follow_redirects=True)
    assert answer.status_code == 200
    assert tag_of(answer.text) == "en"
    assert "Set-Cookie" not in answer.headers
    assert 'lang="zh-Hans" hreflang="zh-Hans"' in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_an_address_says_the_language_and_a_cookie_keeps_it(client, path):
    asked = client.get(f"{path}?{ASKED}=zh", follow_redirects=True)
    assert tag_of(asked.text) in ("zh-Hans", "en" if path == "/compare" else "zh-Hans")
    client.set_cookie(ASKED, "zh")
    kept = client.get(path, follow_redirects=True)
    assert tag_of(kept.text) == "zh-Hans"
    assert "回放" in kept.text
    assert 'hreflang="en"' in kept.text


def test_the_cookie_says_nothing_but_a_language_and_goes_nowhere_else(client):
    said = client.get(f"/replay?{ASKED}=zh").headers["Set-Cookie"]
    assert said.startswith("lang=zh;")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(said.split("; "))
    client.set_cookie(ASKED, "zh")
    assert "Set-Cookie" not in client.get(f"/replay?{ASKED}=zh").headers
    assert tag_of(client.get(f"/replay?{ASKED}=en").text) == "en"


@pytest.mark.parametrize("given", ["fr", "", "ZH", "zh;x", "中文"])
def test_a_language_that_there_is_not_is_the_usual_one(client, given):
    answer = client.get("/replay", query_string={ASKED: given})
    assert tag_of(answer.text) == "en"
    assert "Set-Cookie" not in answer.headers
    client.set_cookie(ASKED, "xx")
    assert tag_of(client.get("/replay").text) == "en"


def test_what_a_page_asks_for_is_in_the_language_of_its_address(client):
    asked = "/api/replay?trace=stage-3"
    english = client.get(asked)
    chinese = client.get(asked, headers={"Referer": "http://localhost/replay?lang=zh"})
    assert english.status_code == chinese.status_code == 200
    assert "Cookie" in chinese.headers["Vary"]
    # each is kept for its own language: who comes later gets what was said to nobody else
    assert client.get(asked).get_data() == english.get_data()
    client.set_cookie(ASKED, "zh")
    assert client.get(asked).get_data() == chinese.get_data()


def test_verify_and_plan_are_drawn_in_the_language_of_the_page(client):
    client.set_cookie(ASKED, "zh")
    assert "从公式到线路" in client.get("/verify?trace=stage-3").text
    assert "流水线并行" in client.get("/plan").text
    client.set_cookie(ASKED, "en")
    assert "From the law to the wire" in client.get("/verify?trace=stage-3").text


@pytest.mark.parametrize("language", Language)
def test_a_page_holds_the_words_of_its_own_modules(client, language):
    page = client.get(f"/graph?{ASKED}={language}").text
    held = re.search(
        rf'<script type="application/json" id="{player.WORDS_ID}">(.*?)</script>', page
    )
    found = json.loads(held[1])
    assert found["language"] == language
    assert set(found["words"]) == {"shared", "names", *_tables(player.modules("graph/main.js"))}
    with speaking(language):
        assert found["words"]["graph"]["keys"]["zoom"] in ("zoom", "缩放")


def _tables(modules):
    """The outermost tables of modules that say something."""
    text = (player.FOLDER.parent / "words" / "player.toml").read_text("utf-8")
    known = re.findall(r"^\[([^\]]+)\]", text, re.MULTILINE)
    return {
        name.split(".")[0]
        for name in (module.removesuffix(".js").replace("/", ".") for module in modules)
        if name in known
    }


@pytest.mark.parametrize(
    ("language", "tag", "word"), [("en", "en", "Replay"), ("zh", "zh-Hans", "回放")]
)
def test_a_file_is_in_the_language_that_is_spoken_and_has_no_switch(tmp_path, language, tag, word):
    folders = [put_trace(tmp_path / f"stage-{stage}", stage) for stage in (0, 3)]
    with speaking(Language(language)):
        document = replay_document(load(folders[0]), None, "t")
        away = StandalonePages(folders)
        pages = (offline_page(document), away.compare(), away.verify(None))
    for page in pages:
        assert re.search(r'<html[^>]* lang="([^"]+)"', page)[1] == tag
        assert word in page
        assert 'id="language"' not in page
    assert all(f'id="{player.WORDS_ID}"' in page for page in pages[:2])
