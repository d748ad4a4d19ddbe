"""Anyone can use it: axe-core finds nothing, on any page, in both themes."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.ranks]


def violations(page, **options) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options=options or None).response["violations"]
    return [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]]


def violations_in_both_themes(one) -> list[str]:
    """On a page for which no theme was chosen: it follows the system's, in its colours alone."""
    found = []
    for theme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        one.page.emulate_media(color_scheme=theme)
        one.wait(f"document.documentElement.dataset.theme === '{theme}'")
        one.settle()
        found += [f"{theme}: {violation}" for violation in violations(one.page, **rules)]
    return found


@pytest.mark.parametrize("what", ["&mode=present", "&table=1", "&tour=12"])
def test_the_replay_page(watch, what):
    one = watch(reduced_motion="reduce")
    one.open(f"/replay?trace=stage-3#at=20{what}")
    assert violations_in_both_themes(one) == []


def test_the_dialogs_and_the_menu_of_runs(watch):
    one = watch(reduced_motion="reduce")
    one.open("/replay?trace=stage-0#at=20")
    for key in ("Shift+?", "Shift+B", "r", "/"):
        one.press(key)
        one.expect("dialog[open]").to_have_count(1)
        assert violations_in_both_themes(one) == [], key
        one.press("Escape")
        one.expect("dialog[open]").to_have_count(0)
    one.page.locator("#runs summary").click()
    one.expect("#runs a:visible").to_have_count(4)
    assert violations_in_both_themes(one) == []
