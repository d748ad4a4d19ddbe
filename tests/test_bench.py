"""The benchmarks name what they time: it has to be there."""

import pytest

from tests.bench.costs import PARTS


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_what_an_event_costs_is_there(part):
    for home, names in PARTS[part]:
        assert [name for name in names if not hasattr(home, name)] == []
