"""Templates ask words by names that are no methods of the dict which holds them."""

import re
from pathlib import Path

import pytest

from zerosim.dashboards.site import __file__ as site

TEMPLATES = sorted((Path(site).parent / "templates").glob("*.html"))
METHODS = "|".join(name for name in dir(dict) if not name.startswith("_"))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda one: one.name)
def test_no_word_is_called_like_a_method(template):
    """`said.copy` is the method that copies a dict; `said["copy"]` is the word."""
    text = template.read_text(encoding="utf-8")
    inside = re.findall(r"\{[{%](.*?)[%}]\}", text, re.DOTALL)
    plain = [re.sub(r"'[^']*'|\"[^\"]*\"", "", part) for part in inside]
    wrong = [part for part in plain if re.search(rf"\.({METHODS})\b(?!\()", part)]
    assert wrong == []
