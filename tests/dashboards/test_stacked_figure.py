"""The colours of stacked bars: a colour means one thing."""

import re
from pathlib import Path

from zerosim.dashboards.figures.stacked import look_of
from zerosim.dashboards.site import __file__ as site

STYLE = (Path(site).parent / "assets" / "lessons.css").read_text(encoding="utf-8")
PAINTS = dict(re.findall(r"\.((?:shard|cause|of)-\w+) \{ --paint: (#\w+)", STYLE))


def test_what_is_no_rank_has_no_colour_of_a_rank():
    assert look_of("rank 2") == "shard-2"
    looks = [look_of(f"cause {number}", number) for number in range(8)]
    ranks = {PAINTS[f"shard-{number}"] for number in range(8)}
    assert len({PAINTS[look] for look in looks} - ranks) == len(looks)
