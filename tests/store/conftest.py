"""Tags of the tests' own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of tags that no other test sees, in a fresh folder."""
    place = tmp_path / "data" / "tags.json"
    monkeypatch.setenv("ASYNCSIM_TAGS", str(place))
    monkeypatch.chdir(tmp_path)
    return place
