"""The application in front of two small traces."""

import pytest

from tests.dashboards.samples import make_site, put_trace


def two_stages(folder):
    for stage in (0, 3):
        put_trace(folder / f"stage-{stage}", stage)
    return make_site(folder)


@pytest.fixture
def site(tmp_path):
    """One whose traces a test may change."""
    return two_stages(tmp_path)


@pytest.fixture(scope="session")
def standing(tmp_path_factory):
    """One of all tests, whose traces stay as they are; and where they lie."""
    folder = tmp_path_factory.mktemp("standing")
    return two_stages(folder), folder


@pytest.fixture
def client(standing):
    """A reader who has been nowhere before."""
    return standing[0].client.application.test_client()
