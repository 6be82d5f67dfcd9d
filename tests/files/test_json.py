"""JSON files: what was written comes back, and a file that is damaged or another owner's reads as missing."""

import json
from pathlib import Path

import numpy as np
import pytest

from asyncsim.files._json import read_owned, to_plain, write_json, write_owned


class TestWriteJson:
    def test_what_is_not_finite_is_null(self, tmp_path: Path) -> None:
        values = {"a": (np.int32(1), [True, None, "x", -np.inf]), "b": {"c": np.eye(2)}, "d": np.array([0.5, np.nan])}
        write_json(tmp_path / "a.json", values)
        read = json.loads((tmp_path / "a.json").read_text(), parse_constant=pytest.fail)
        expected = {"a": [1, [True, None, "x", None]], "b": {"c": [[1.0, 0.0], [0.0, 1.0]]}, "d": [0.5, None]}
        assert read == expected == to_plain(values)
        assert type(read["a"][0]) is int

    def test_other_objects_are_refused_and_the_file_stays(self, tmp_path: Path) -> None:
        old = tmp_path / "old.json"
        old.write_bytes(b"old")
        with pytest.raises(TypeError, match="not JSON serializable"):
            write_json(old, {"a": object()})
        assert old.read_bytes() == b"old"


class TestOwned:
    """A file is its owner's, and as it was written, or it is as good as missing."""

    def test_what_was_written_comes_back(self, tmp_path: Path) -> None:
        value = {"b": 0.1, "a": [1, None, "größe", {"x": True}], "c": np.float64("nan"), "2": -0.0}
        write_owned(tmp_path / "a.json", value, "me")
        found = read_owned(tmp_path / "a.json", "me")
        assert found == to_plain(value)
        assert read_owned(tmp_path / "a.json") == found
        assert read_owned(tmp_path / "a.json", "you") is None
        assert json.loads((tmp_path / "a.json").read_text())["a"] == value["a"]

    def test_any_changed_byte_is_noticed_or_changes_nothing(self, tmp_path: Path) -> None:
        path, value = tmp_path / "a.json", {"loss": 0.125, "name": "gem"}
        write_owned(path, value, "me")
        whole = path.read_bytes()
        for place, byte in enumerate(whole):
            for other in {0, ord("0"), ord(" "), ord('"'), byte ^ 1} - {byte}:
                path.write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
                assert read_owned(path, "me") in (None, value)
            path.write_bytes(whole[:place])
            assert read_owned(path, "me") in (None, value)

    @pytest.mark.parametrize(
        "text", ["", "{}", "[]", "3", "[" * 100_000, '{"@asyncsim": 3}', '{"@asyncsim": {"owner": "me"}}']
    )
    def test_other_content_is_damage(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "a.json").write_text(text)
        assert read_owned(tmp_path / "a.json") is None

    def test_the_name_of_the_entry_is_kept(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"'@asyncsim' is kept for the checksum of 'a\.json'"):
            write_owned(tmp_path / "a.json", {"@asyncsim": 1}, "me")
