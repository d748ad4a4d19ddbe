"""Anyone can use it: axe-core finds nothing, on any page, in both themes."""

from __future__ import annotations

import pytest

from tests.sparing import sparing

pytestmark = [pytest.mark.browser, pytest.mark.ranks]


def violations(page) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("what", sparing(["", "&mode=present", "&table=1"], 2))
def test_the_replay_page(watch, theme, what):
    one = watch(reduced_motion="reduce")
    one.open(f"/replay?trace=stage-3#at=20&theme={theme}{what}")
    assert violations(one.page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("key", sparing(["Shift+?", "Shift+B", "r"], 2))
def test_the_dialogs(watch, theme, key):
    one = watch(reduced_motion="reduce")
    one.open(f"/replay?trace=stage-0#at=20&theme={theme}")
    one.press(key)
    assert one.page.locator("dialog[open]").count() == 1
    assert violations(one.page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_menu_of_runs(watch, theme):
    one = watch(reduced_motion="reduce")
    one.open(f"/replay?trace=stage-0#at=20&theme={theme}")
    one.page.locator("#runs summary").click()
    assert one.page.locator("#runs a").count() == 4
    assert violations(one.page) == []
