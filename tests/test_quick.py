"""`pytest -m quick` knows every room."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOMS = sorted({path.parent for path in TESTS.rglob("test_*.py")})


@pytest.mark.quick
@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(TESTS)))
def test_every_room_has_a_quick_test(room):
    assert any("pytest.mark.quick" in path.read_text(encoding="utf-8") for path in room.glob("test_*.py"))
