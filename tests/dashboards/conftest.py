"""The application in front of two small traces."""

import pytest

from tests.dashboards.samples import make_site, put_trace


@pytest.fixture
def site(tmp_path):
    for stage in (0, 3):
        put_trace(tmp_path / f"stage-{stage}", stage)
    return make_site(tmp_path)


@pytest.fixture
def client(site):
    return site.client
