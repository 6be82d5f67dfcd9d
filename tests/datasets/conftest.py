"""No folder of data sets that the environment names."""

import pytest


@pytest.fixture(autouse=True)
def _no_setting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "real" not in request.node.name:
        monkeypatch.delenv("ASYNCSIM_DATA", raising=False)
