"""`pytest -m quick` has tests of every package."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FOLDERS = sorted({path.parent for path in TESTS.rglob("test_*.py")})


@pytest.mark.quick
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(TESTS)))
def test_every_folder_has_a_quick_test(folder):
    assert any("pytest.mark.quick" in path.read_text(encoding="utf-8") for path in folder.glob("test_*.py"))
