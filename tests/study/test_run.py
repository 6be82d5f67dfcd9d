"""A scenario's folder: files are written whole, results are reused, an interrupted run is resumed, and its summary."""

import dataclasses
import errno
import json
import math
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import asyncsim as asim
from asyncsim._metrics import KEYS
from asyncsim.cli._output import print_comparison, print_summary
from asyncsim.engine import _chunks as chunks
from asyncsim.files import _atomic
from asyncsim.files import _npz as npz
from asyncsim.plots.style import read_png_metadata
from asyncsim.store import _lease as lease
from asyncsim.store._entry import ASSEMBLY_FOLDER, Folder
from asyncsim.study import _replay, _run
from asyncsim.study._replay import Stopwatch
from asyncsim.study._run import FILES as NAMES
from asyncsim.study._run import LABEL
from asyncsim.study._summary import summarise
from tests.conftest import draw_empty_pages
from tests.problems import full_disk, interrupt
from tests.store.problems import content_of
from tests.study.problems import FILES, assert_same_run, contents, no_replay, scenario

pytestmark = pytest.mark.usefixtures("empty_pages")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> asim.Result:
    """The results of the scenario in a folder, with the whole page. Whoever changes the folder takes a copy."""
    return asim.run(scenario(), tmp_path_factory.mktemp("done") / "deep" / "folder")


@pytest.fixture
def out(done: asim.Result, tmp_path: Path) -> Path:
    """A copy of the folder."""
    assert done.folder is not None
    return Path(shutil.copytree(done.folder, tmp_path / "out"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a scenario with another seed, with an empty page. Nobody changes it."""
    folder = tmp_path_factory.mktemp("other")
    with pytest.MonkeyPatch.context() as patch:
        draw_empty_pages(patch)
        asim.run(scenario(seed=1), folder)
    return folder


class TestFiles:
    def test_all_files_are_written(self, done: asim.Result) -> None:
        assert done.folder is not None
        assert {path.name for path in done.folder.iterdir()} == FILES
        label = content_of(done.folder / "scenario.json")
        assert label.pop("digest") == scenario().digest
        assert {"date", "command", "versions"} <= label.pop("origin").keys()
        assert label == scenario().describe()
        assert len(asim.Trace.load(done.folder / "trace.npz")) == 400

    def test_summary(self, tmp_path: Path) -> None:
        uneven = asim.Cluster(4, [asim.delays.Exponential(mean) for mean in (0.5, 1.0, 2.0, 8.0)])
        result = asim.run(dataclasses.replace(scenario(), cluster=uneven), tmp_path)
        assert (result.trace.worker == 3).sum() < 50
        summary = content_of(tmp_path / "summary.json")
        assert tuple(summary) == KEYS
        assert summary == result.summary
        assert summary["commits"] == 400
        assert summary["simulated_seconds"] == result.trace.seconds
        assert summary["mean_staleness"] == pytest.approx(result.trace.staleness.mean())
        losses = [result.run.loss[result.trace.worker == worker] for worker in range(4)]
        last = [loss[-min(-(-len(loss) // 4), 50) :] for loss in losses]
        assert summary["final_loss"] == pytest.approx(np.concatenate(last).mean())
        assert summary["test_accuracy"] is None
        assert summary["diverged_at"] is None
        assert 0 < summary["commits"] / summary["wall_seconds"] <= summary["commits_per_second"]

    def test_without_a_folder_nothing_is_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert asim.run(scenario()).folder is None
        assert not list(tmp_path.iterdir())

    def test_divergence_is_a_result(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lost = scenario(rule="downpour", learning_rate=9.0, commits=2000)
        summary = asim.run(lost, tmp_path).summary
        assert summary["diverged_at"] is not None
        assert summary["final_loss"] is None
        json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)
        monkeypatch.setattr(_replay, "finish", no_replay)
        assert asim.run(lost, tmp_path).summary == summary


class TestSecondRun:
    @pytest.mark.parametrize("name", ["", "summary.json", "report.png", "trace.npz"])
    def test_only_missing_files_are_written(
        self, done: asim.Result, out: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """With the same bytes, and nothing is computed again."""
        before = contents(out)
        if name == "report.png":
            monkeypatch.undo()  # an empty page is no whole page
        if name:
            (out / name).unlink()
        monkeypatch.setattr(_replay, "finish", no_replay)
        second = asim.run(scenario(), out)
        assert done.recomputed
        assert not second.recomputed
        assert contents(out) == before
        assert_same_run(done.run, second.run)
        assert second.summary == done.summary

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"seed": 1}, "`seed` is 0 there and 1 here"),
            ({"mean": 2.0}, "`cluster.compute.mean` is 1.0 there and 2.0 here"),
        ],
    )
    def test_a_different_scenario_is_refused(self, out: Path, changes: dict[str, Any], words: str) -> None:
        before, other = contents(out), scenario(**changes)
        with pytest.raises(ValueError, match=rf"`out` .* different scenario: {words}\. .*--out.*--force"):
            asim.run(other, out)
        assert contents(out) == before
        asim.run(other, out, force=True)
        assert content_of(out / "scenario.json")["digest"] == other.digest

    def test_files_of_unknown_origin_are_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "report.png").write_bytes(b"precious")
        with pytest.raises(ValueError, match=r"holds a 'report\.png' but no 'scenario\.json'"):
            asim.run(scenario(), tmp_path)
        assert contents(tmp_path) == {"report.png": b"precious"}

    @pytest.mark.parametrize("text", ["{}", None])
    def test_a_damaged_label_is_that_of_the_files_beside_it(self, out: Path, text: str | None) -> None:
        label = out / "scenario.json"
        label.write_text(label.read_text().replace('"digest": "', '"digest": "x') if text is None else text)
        before = contents(out)
        with pytest.raises(ValueError, match=r"holds a damaged 'scenario\.json'.*--force"):
            asim.run(scenario(seed=1), out)
        assert contents(out) == before
        assert not asim.run(scenario(), out).recomputed
        assert asim.load(out).scenario == scenario()

    @pytest.mark.parametrize("size", [0, 100])
    def test_what_a_power_cut_leaves_is_computed_again(self, done: asim.Result, out: Path, size: int) -> None:
        for path in out.iterdir():
            os.truncate(path, size)
        with pytest.warns(UserWarning, match=r"npz' is damaged\. It is computed again\."):
            again = asim.run(scenario(), out)
        assert again.recomputed
        assert_same_run(again.run, done.run)
        assert not asim.run(scenario(), out).recomputed
        assert asim.load(out).scenario == scenario()


class TestReadOnly:
    @pytest.fixture
    def read_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing can be written or removed."""

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        monkeypatch.setattr(lease, "_create", refuse)
        monkeypatch.setattr(_atomic, "_write", refuse)
        monkeypatch.setattr(Path, "unlink", refuse)

    @pytest.mark.parametrize("assembled", [False, True])
    def test_results_are_found(self, out: Path, other: Path, request: pytest.FixtureRequest, assembled: bool) -> None:
        """Also next to others that a killed process did not publish."""
        if assembled:
            shutil.copytree(other, out / ASSEMBLY_FOLDER)
        request.getfixturevalue("read_only")
        assert not asim.run(scenario(), out).recomputed

    @pytest.mark.usefixtures("read_only")
    def test_the_message_is_the_intended_one(self, tmp_path: Path) -> None:
        with pytest.raises(
            OSError, match=r"scenario.json' could not be written: Read-only.*can be written to"
        ) as caught:
            asim.run(scenario(), tmp_path)
        assert caught.value.errno == errno.EROFS

    def test_a_lock_on_a_full_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lease, "_create", lambda *args: full_disk())
        with pytest.raises(OSError, match=r"`out` .* cannot be locked: No space left.*Choose another"):
            asim.run(scenario(), tmp_path)


class TestOwner:
    """Each file says whose it is, and is believed only if it is the scenario's own."""

    @pytest.mark.parametrize(("name", "kind"), [("trace.npz", "trace"), ("run.npz", "run")])
    def test_files_of_another_scenario_are_refused(self, out: Path, other: Path, name: str, kind: str) -> None:
        for beside in ("trace.npz", "run.npz"):
            (out / beside).unlink()  # nothing beside it contradicts it
        shutil.copy(other / name, out)
        with pytest.raises(ValueError, match=rf"{name}' is not the {kind} of this scenario.*Delete it.*`--force`"):
            asim.run(scenario(), out)

    @pytest.mark.parametrize("changes", [{"seed": 1}, {"commits": 300}, {"workers": 5, "commits": 400}])
    def test_so_is_a_trace_that_only_claims_to_be_its_own(
        self, done: asim.Result, out: Path, changes: dict[str, Any]
    ) -> None:
        scenario(**changes).simulate().save(out / "trace.npz", attributes={npz.OWNER: scenario().digest})
        with pytest.raises(ValueError, match=r"trace\.npz' is not the trace of .*Delete it.*`--force`"):
            asim.run(scenario(), out)
        (out / "trace.npz").unlink()
        assert_same_run(asim.run(scenario(), out).run, done.run)

    def test_a_foreign_picture_is_drawn_again(self, out: Path, other: Path) -> None:
        (out / "report.png").unlink()
        asim.run(scenario(), out)
        drawn = (out / "report.png").read_bytes()
        for found in ((other / "report.png").read_bytes(), b"", drawn[:500] + b"x" + drawn[501:]):
            (out / "report.png").write_bytes(found)
            asim.run(scenario(), out)
            assert (out / "report.png").read_bytes() == drawn

    def test_a_replaced_run_does_not_keep_the_picture(self, out: Path) -> None:
        other = scenario(seed=1)
        asim.run(other, out, force=True, picture=False)
        assert contents(out).keys() == FILES - {"report.png"}
        asim.run(other, out)
        assert read_png_metadata(out / "report.png")["Study"] == other.digest


class TestSummary:
    """It is derived from the run, and never believed."""

    def test_a_changed_digit_is_put_right(self, out: Path) -> None:
        path = out / "summary.json"
        before = path.read_bytes()
        path.write_text(json.dumps(json.loads(before) | {"final_loss": 0.125}, indent=2))
        found = asim.run(scenario(), out)
        assert not found.recomputed
        assert found.summary["final_loss"] != 0.125
        assert path.read_bytes() == before

    def test_is_not_lost_with_the_run_when_it_fails(
        self, done: asim.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(_run, "summarise", interrupt)
            with pytest.raises(KeyboardInterrupt):
                asim.run(scenario(), tmp_path)
        monkeypatch.setattr(_replay, "finish", no_replay)
        assert_same_run(asim.run(scenario(), tmp_path).run, done.run)


@pytest.mark.usefixtures("short_chunks")
def test_old_results_stay_until_the_new_ones_are_complete(done: asim.Result, out: Path) -> None:
    before = contents(out)
    with pytest.raises(asim.ReplayInterrupted):
        asim.run(scenario(seed=1), out, force=True, progress=interrupt)
    assert {name: (out / name).read_bytes() for name in FILES} == before
    assert asim.run(scenario(), out).summary == done.summary
    reported: list[int] = []
    asim.run(scenario(seed=1), out, progress=lambda progress: reported.append(progress.done))
    assert reported[0] == 128
    assert {path.name for path in out.iterdir()} == FILES
    assert not asim.run(scenario(seed=1), out).recomputed


def height(commit: asim.CommitView) -> Any:
    return commit.central["x"][0]


@pytest.mark.usefixtures("short_chunks")
class TestInterruption:
    def test_a_resumed_run_equals_a_whole_one_bit_for_bit(self, tmp_path: Path) -> None:
        recording = scenario(record={"pi_mean": None, "central": 16, "height": (height, 8)})

        def interrupt(progress: asim.Progress) -> None:
            if progress.done >= 128:
                raise KeyboardInterrupt

        with pytest.raises(asim.ReplayInterrupted) as caught:
            asim.run(recording, tmp_path / "cut", progress=interrupt)
        assert caught.value.run.commits == 128
        assert {path.name for path in (tmp_path / "cut").iterdir()} == {"scenario.json", "trace.npz", "run.npz"}
        reported: list[int] = []
        resumed = asim.run(recording, tmp_path / "cut", progress=lambda progress: reported.append(progress.done))
        assert reported[0] == 192
        whole = asim.run(recording, tmp_path / "whole")
        assert_same_run(resumed.run, whole.run)
        assert resumed.run.records["height"].shape == (50,)
        assert resumed.run.records["central"].shape == (25, 2)
        assert (tmp_path / "cut" / "report.png").read_bytes() == (tmp_path / "whole" / "report.png").read_bytes()

    def test_checkpoints_survive_a_crash(
        self, done: asim.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_replay, "CHECKPOINT_EVERY", 0.0)

        def crash(progress: asim.Progress) -> None:
            if progress.done >= 256:
                raise RuntimeError("power cut")

        with pytest.raises(RuntimeError, match="power cut"):
            asim.run(scenario(), tmp_path, progress=crash)
        kept = asim.Run.load(tmp_path / "run.npz", scenario().rule, scenario().workload)
        assert kept.commits == 192
        before = np.load(tmp_path / "run.npz")["note/wall_seconds"]
        again = asim.run(scenario(), tmp_path)
        assert_same_run(again.run, done.run)
        assert again.summary["wall_seconds"] > before > 0  # the time adds up


POSITIVE = st.floats(0.01, 2.0) | st.sampled_from([1, 5, 1e300, np.float64(0.5), np.float32(0.25), np.int64(2)])
NUMBERS = POSITIVE | st.sampled_from([np.inf, 0.0, -0.0, -1.0, np.nan])
INTEGERS = st.integers(-1, 9) | st.just(np.int32(3))
VALUES = {
    "number": NUMBERS,
    "integer": INTEGERS,
    "number by worker": NUMBERS | st.lists(NUMBERS, min_size=1, max_size=4),
    "integer by worker": INTEGERS | st.lists(INTEGERS, min_size=1, max_size=4),
    "switch": st.booleans(),
    "numbers": st.lists(NUMBERS, min_size=1, max_size=3),
    "integers": st.lists(INTEGERS, min_size=1, max_size=3),
    "names": st.sampled_from([(), ("energy_central",), {"energy_central": 3}]),
}


@settings(max_examples=15, phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_scenario_that_can_be_made_can_be_kept(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """And is found again, whatever its fields say."""
    made = scenario(compute="gamma", cv=0.5, rule="downpour")  # which has no option that another rule could refuse
    for name in ("compute", "protocol", "rule", *["any"] * 4):
        fields = [field for field in made.fields() if name in (field.name, "any") and field.name != "workload"]
        field = data.draw(st.sampled_from(fields))
        values = st.sampled_from(field.choices) if field.choices else VALUES.get(field.kind, NUMBERS)
        with suppress(ValueError):
            made = made.override(**{field.name: data.draw(values)})
    folder = Folder(tmp_path_factory.mktemp("any"), LABEL, NAMES)
    for _ in range(2):
        with folder.lease(made) as work:
            assert work.path == folder.path
    assert contents(folder.path).keys() == {LABEL}
    label = json.loads((folder / LABEL).read_text(), parse_constant=pytest.fail)
    assert label["digest"] == made.digest


def test_an_out_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=r"`out` .*file' cannot be created: File exists.*Choose another"):
        asim.run(scenario(), tmp_path / "file")


@pytest.mark.parametrize("out", [5, ""])
def test_what_is_not_a_folder_is_refused_before_anything_is_computed(out: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asim.Scenario, "schedule", no_replay)
    experiment = asim.Experiment(lambda: no_replay(), no_replay)
    for ask in (
        lambda: asim.run(scenario(), out),
        lambda: asim.compare(asim.Comparison({"one": scenario()}), out),
        lambda: experiment.run(out),
    ):
        with pytest.raises(ValueError, match="`out` must be"):
            ask()


def test_overlapping_spans_of_compilation_are_counted_once() -> None:
    watch = Stopwatch()
    watch._start = 0.0
    watch._end = 10.0
    watch._spans = [(2.0, 3.0), (1.0, 4.0), (3.5, 5.0), (-1.0, 0.5)]
    assert watch.compiling == pytest.approx(4.5)


def init(key):
    return {"x": jnp.ones(2)}


def measure(params):
    return {"test_loss": (params["x"] ** 2).sum(), "train_accuracy": 0.75 + 0 * params["x"][0], "norm": params["x"][0]}


def half_square(params, batch, key):
    return 0.5 * (params["x"] ** 2).sum()


MEASURED = asim.Scenario(
    cluster=asim.Cluster(2, asim.delays.Constant(1.0)),
    rule=asim.rules.Downpour(0.1),
    workload=asim.Workload(init, half_square, evaluate=measure),
    commits=8,
    record={"train_accuracy": 2, "energy_central": 1},
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return asim.run(MEASURED, tmp_path_factory.mktemp("own"), picture=False)


def test_metrics_of_your_own_are_kept_and_recorded(measured):
    result = measured
    assert tuple(result.summary) == (*KEYS, "train_accuracy", "norm")
    assert result.summary["train_accuracy"] == 0.75
    assert content_of(Path(result.folder) / "summary.json") == result.summary
    assert result.summary["test_accuracy"] is None
    assert result.run.records["train_accuracy"].tolist() == [0.75] * 4
    assert result.run.recorded_at["train_accuracy"].tolist() == [1, 3, 5, 7]
    again = asim.Run.load(Path(result.folder) / "run.npz", MEASURED.rule, MEASURED.workload)
    assert again.records["train_accuracy"].tolist() == [0.75] * 4
    assert {"train_accuracy", "norm", "test_loss"} <= set(MEASURED.reportable)
    assert dataclasses.replace(MEASURED, record=("norm",)).strides == {"norm": 100}


def small_summary(trace: asim.Trace, learning_rate: float, **more: Any) -> dict[str, Any]:
    return summarise(trace, asim.replay(trace, asim.rules.Downpour(learning_rate), **more), 1.0)


def stuck_run(learning_rate: float, law: asim.delays.Delay) -> asim.Result:
    """DOWNPOUR with sixteen workers on digits."""
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=32)
    rule = asim.rules.Downpour(learning_rate)
    return asim.run(asim.Scenario(asim.Cluster(16, law), rule, workload, commits=1600, seed=0))


class TestStuck:
    """A finite run whose loss is no lower than at the start is "stuck", not "diverged"."""

    def test_a_network_at_even_odds_is_stuck(self) -> None:
        """Its loss, ln 10, is a little lower than that of the random parameters with which it began."""
        result = stuck_run(0.2, asim.delays.Constant(1.0))
        assert (result.summary["stuck"], result.summary["diverged_at"]) == (True, None)
        assert math.log(10) - 0.05 < result.summary["final_loss"] < result.summary["initial_loss"]
        assert repr(result).endswith("; stuck yes)")

    def test_one_that_learns_is_not(self) -> None:
        summary = stuck_run(0.05, asim.delays.Gamma(1.0, 0.3)).summary
        assert summary["stuck"] is False
        assert summary["final_loss"] < 0.5 * summary["initial_loss"]

    def test_where_nothing_is_known(self) -> None:
        """Without commits, before any update, and where the run diverged."""
        workload = asim.workloads.Quadratic([1.0])
        none = asim.simulate(asim.Cluster(2, asim.delays.Constant(1.0)), seconds=0.5)
        summary = small_summary(none, 0.1, workload=workload)
        assert summary["commits"] == 0
        assert summary["final_loss"] is summary["mean_staleness"] is summary["stuck"] is None
        assert small_summary(asim.Trace.from_commits([0, 1, 2]), 0.1, workload=workload)["stuck"] is None
        lost = small_summary(asim.Trace.from_commits([0, 1] * 200), 9.0, workload=workload)
        assert lost["diverged_at"] is not None
        assert lost["stuck"] is None

    def test_the_initial_loss_is_that_of_the_initial_parameters(self) -> None:
        """Also where a worker joins late and reads parameters that have been trained."""
        columns = {"worker": [0, 0, 1, 0], "read_time": [0.0, 1.0, 2.5, 2.0], "commit_time": [1.0, 2.0, 3.0, 4.0]}
        workload = asim.workloads.Quadratic([2.0], start=3.0)
        assert small_summary(asim.Trace.from_columns(columns), 0.25, workload=workload)["initial_loss"] == 9.0

    def test_tables_print_a_stuck_run_and_the_users_metrics(
        self, measured: asim.Result, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Of a run that is stuck, and of metrics of one's own."""
        summary = small_summary(asim.Trace.from_commits([0, 1] * 20), 0.0, workload=asim.workloads.Quadratic([1.0]))
        print_summary(summary)
        print_summary(measured.summary)
        told = capsys.readouterr().out
        assert re.search(r"stuck +yes +the loss fell by less than a twentieth", told)
        assert re.search(r"train accuracy +75\.00%", told)
        print_comparison({"one": measured.summary, "other": {**measured.summary, "norm": None}, "stuck": summary})
        told = capsys.readouterr().out
        assert {"norm", "stuck"} <= set(told.split())
        assert told.count("75.00%") == 2


def test_an_interrupted_run_that_has_diverged_goes_on_to_where_it_would_have_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "SHORTEST", 16)
    monkeypatch.setattr(chunks, "LONGEST", 16)
    diverging = scenario(rule="downpour", commits=100, learning_rate=1e10)
    whole = asim.run(diverging)

    with pytest.raises(asim.ReplayInterrupted):
        asim.run(diverging, tmp_path, progress=interrupt, picture=False)
    resumed = asim.run(diverging, tmp_path, picture=False)
    assert resumed.run.diverged_at == whole.run.diverged_at < 16
    np.testing.assert_array_equal(resumed.run.loss, whole.run.loss)
