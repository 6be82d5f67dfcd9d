"""Lists of runs: the runs found, the effect of damage, the filters, and that thousands take no time."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim.files._json import write_owned
from asyncsim.store import _listing as listing
from asyncsim.store._entries import Entries
from asyncsim.store._labels import read_info
from asyncsim.store._lease import this_process
from asyncsim.store._sweeps import SweepSettings
from tests.store.problems import write_label

SUMMARY = {"commits": 40, "final_loss": 0.5, "test_accuracy": None, "diverged_at": None}


def label(workers: int = 4, rule: str = "gem", **more: Any) -> dict[str, Any]:
    cluster = {"workers": workers, "compute": {"kind": "delays.gamma", "mean": 1.0}}
    described = {"cluster": cluster, "rule": {"kind": f"rules.{rule}", "learning_rate": 0.1}, "commits": 40, "seed": 0}
    return {"digest": "0123456789abcdef", **described, **more}


def a_run(place: str, summary: Any = SUMMARY, **changes: Any) -> Path:
    folder = Path(place)
    folder.mkdir(parents=True)
    write_label(folder, label(**changes))
    if summary is not None:
        write_owned(folder / "summary.json", summary, label()["digest"])
    return folder


def names(rows: list[listing.Row]) -> list[str]:
    return [row.name for row in rows]


def test_every_run_below_a_folder() -> None:
    for place in ("runs/a", "runs/deep/er/b", "runs/.unfinished/c", "runs/a/.finished", "other/d"):
        a_run(place)
    assert names(listing.rows(Path("runs"), {})) == ["a", "deep/er/b"]
    assert names(listing.rows(Path("runs/a"), {})) == ["a"]
    assert listing.rows(Path("nothing"), {}) == []


def test_what_a_sweep_changed() -> None:
    folder = a_run("sweep/0123456789abcdef")
    Path("sweep/store.json").write_text("{}")
    Path("sweep/sweeps").mkdir()
    rows = [["0123456789abcdef", 0.1, None], ["f" * 16, 0.2, 3]]
    write_owned("sweep/sweeps/a.json", {"fields": ["learning_rate", "window"], "rows": rows}, "a")
    Path("sweep/sweeps/b.json").write_text("{")
    assert listing.rows(Path("sweep"), {})[0].swept == {"learning_rate": 0.1}
    assert listing.rows(folder, {})[0].swept == {"learning_rate": 0.1}
    Path("sweep/store.json").unlink()
    assert listing.rows(Path("sweep"), {})[0].swept == {}


DIGEST = label()["digest"]
SWEEP = {"fields": ["seed"], "rows": [[DIGEST, 1]], "common": {}, "labels": [], "when": ""}
WRONG_SWEEPS: list[dict[str, Any]] = [
    {"rows": 5},
    {"rows": [5]},
    {"rows": [[]]},
    {"rows": [[[DIGEST], 1]]},
    {"rows": [[DIGEST, 1, 2]]},
    {"rows": [["../../plain", 1]]},
    {"fields": 5},
    {"fields": [["seed"]]},
    {"common": 5},
    {"labels": 5, "common": {"a": 1}},
    {"labels": [["a"]]},
    {"when": 5},
]


@pytest.mark.parametrize("entries", WRONG_SWEEPS, ids=str)
def test_a_sweep_of_another_form_is_damaged(entries: dict[str, Any]) -> None:
    """Anybody may write one, with a checksum that fits."""
    a_run("sweep/0123456789abcdef")
    Path("sweep/store.json").write_text("{}")
    Path("sweep/sweeps").mkdir()
    write_owned("sweep/sweeps/a.json", SWEEP, "a")
    write_owned("sweep/sweeps/b.json", {**SWEEP, **entries}, "b")
    assert [row.swept for row in listing.rows(Path("sweep"), {})] == [{"seed": 1}]
    with pytest.warns(UserWarning, match="'sweep/sweeps/b.json' is damaged"):
        assert Entries(Path("sweep")).sweeps() == [SweepSettings(**SWEEP)]


WRONG_ORIGINS: list[dict[str, Any]] = [
    {"settings": 5},
    {"settings": [1]},
    {"settings": {"cluster": {"kind": 5}}},
    {"rebuild": 5},
    {"rebuild": {"labels": 5}},
    {"date": 5, "command": [1]},
]


@pytest.mark.parametrize("origin", WRONG_ORIGINS, ids=str)
def test_a_run_whose_origin_has_another_form_is_listed(origin: dict[str, Any]) -> None:
    folder = a_run("a", origin=origin)
    assert names(listing.rows(folder, {})) == ["a"]
    info = read_info(folder)
    assert info is not None
    assert dict(listing.flat(info.settings))["rule"] == "gem"
    assert info.origin.get("date") is None


def test_states() -> None:
    assert read_info(a_run("a")).state == "complete"  # type: ignore[union-attr]
    folder = a_run("b", summary=None)

    def state() -> str:
        return read_info(folder).state  # type: ignore[union-attr]

    assert state() == "begun"
    (folder / "run.npz").write_text("")
    assert state() == "interrupted"
    for holder, expected in (
        (this_process(), "running"),
        (this_process() | {"process": 2**22 + 1}, "interrupted"),  # more than Linux numbers
        (this_process() | {"process": 2**80}, "interrupted"),
        (this_process() | {"process": "x"}, "interrupted"),
        (this_process() | {"started": "1"}, "interrupted"),  # another process had this number before
        (this_process() | {"host": "elsewhere"}, "running"),
    ):
        (folder / ".holder").write_text(json.dumps(holder))
        assert state() == expected


DAMAGE = ("", "{", "[]", "[" * 100_000, '{"digest": 3}', '{"digest": "d", "cluster": []}')


@pytest.mark.parametrize("content", DAMAGE, ids=range(len(DAMAGE)))
def test_damage_is_listed(content: str) -> None:
    a_run("runs/good")
    for name in ("scenario.json", "summary.json"):
        (a_run(f"runs/bad_{name}") / name).write_text(content)
    (Path("runs/bytes") / "scenario.json").parent.mkdir()
    (Path("runs/bytes") / "scenario.json").write_bytes(b"\xff\xfe{")
    found = {row.name: row.info.state for row in listing.rows(Path("runs"), {})}
    assert (found["good"], found["bytes"]) == ("complete", "damaged")
    assert len(found) == 4


class TestConditions:
    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("workers>10", ["b"]),
            ("n >= 4", ["a", "b"]),
            ("rule=gem", ["a"]),
            ("rule!=gem", ["b"]),
            ("rule == 'agn'", ["b"]),
            ("learning_rate<1", ["a", "b"]),
            ("rule.learning_rate<=0.1", ["a", "b"]),
            ("cluster.compute.mean=1", ["a", "b"]),
            ("compute=gamma", ["a", "b"]),
            ("loss<0.1", []),
            ("final_loss=0.5", ["a", "b"]),
            ("state=complete", ["a", "b"]),
            ("when>2001-01-01", ["a", "b"]),
            ("when<2001", []),
            ("rule>10", []),
            ("workers!=text", ["a", "b"]),
        ],
    )
    def test_they_hold(self, text: str, wanted: list[str]) -> None:
        a_run("a")
        a_run("b", workers=20, rule="agn")
        condition = listing.condition(text)
        rows = listing.rows(Path("."), {})
        assert names([row for row in rows if condition.holds(row.values)]) == wanted

    @pytest.mark.parametrize("text", ["", "workers", ">10", "workers>", "workers>>1", "a b>1", "workers>ten", "1+1"])
    def test_what_is_none(self, text: str) -> None:
        with pytest.raises(ValueError, match="`--where` must"):
            listing.condition(text)

    def test_a_path_may_be_shortened_to_what_means_one(self) -> None:
        values = {"cluster.network.latency": 1.0, "cluster.regions.0.network.latency": 2.0, "latency": 1.0}
        rows = [listing.Row("a", None, (), values)]  # type: ignore[arg-type]
        for name in ("latency", "cluster.network.latency", "cluster_network_latency", "regions_0_network.latency"):
            path = listing.require_field("--where", name, rows)
            assert values[path] == (2.0 if name.startswith("regions") else 1.0)
        with pytest.raises(ValueError, match=r"'network_latency', which fits cluster.network.latency and cluster.reg"):
            listing.require_field("--where", "network_latency", rows)

    def test_an_unknown_field(self) -> None:
        a_run("a")
        with pytest.raises(ValueError, match=r"names 'wokers', which no run here has. Did you mean 'workers'"):
            listing.require_field("--where", "wokers", listing.rows(Path("."), {}))


@given(st.lists(st.none() | st.integers(-5, 5) | st.floats(-5, 5) | st.sampled_from("abc"), max_size=8), st.booleans())
def test_sorting_is_an_order(values: list[Any], reverse: bool) -> None:
    kept = read_info(Path("x"))
    rows = [listing.Row(str(place), kept, (), {"x": value}) for place, value in enumerate(values)]  # type: ignore[arg-type]
    found = [row.values["x"] for row in listing.sort(rows, "x", reverse)]
    assert sorted(map(repr, found)) == sorted(map(repr, values))
    there = [value for value in found if value is not None]
    assert found == there + [None] * (len(found) - len(there))
    numbers = [value for value in there if not isinstance(value, str)]
    assert numbers == sorted(numbers, reverse=reverse)


def test_only_small_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of each run, which makes thousands of runs a matter of a second."""
    for number in range(20):
        (a_run(f"runs/{number}") / "run.npz").write_bytes(b"not JSON")
    read, text_of = [], Path.read_text

    def counted(path: Path, *arguments: Any, **more: Any) -> str:
        read.append(path.name)
        return text_of(path, *arguments, **more)

    monkeypatch.setattr(Path, "read_text", counted)
    assert len(listing.rows(Path("runs"), {})) == 20
    assert sorted(read) == 20 * ["scenario.json"] + 20 * ["summary.json"]
