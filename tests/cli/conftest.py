"""The command line as the tests call it."""

import importlib
from pathlib import Path

import pytest

import asyncsim as asim
from tests.cli.commands import COMPARISON, EXPERIMENT, SCRIPT, Command, Done


@pytest.fixture(autouse=True)
def empty_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are small and empty, unless a test has the mark `whole_pages`."""
    if not request.node.get_closest_marker("whole_pages"):
        style = importlib.import_module("asyncsim.plots.style")  # the package has a function of this name
        save = style.save_figure
        monkeypatch.setattr(style, "save_figure", lambda paths, draw, size, **more: save(paths, id, (1, 1), **more))


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`asyncsim …` in a fresh folder, which also has the file of the tags."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASYNCSIM_TAGS", str(tmp_path / "tags.json"))

    def run(*arguments: object) -> Done:
        with pytest.raises(SystemExit) as left:
            asim.main(arguments=[*map(str, arguments)])
        assert isinstance(left.value.code, int)
        return Done(left.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def scripts(command: Command) -> None:
    """In the folder of the command: study.py, a scenario; both.py, a comparison; powers.py, an experiment."""
    Path("study.py").write_text(SCRIPT)
    Path("both.py").write_text(COMPARISON)
    Path("powers.py").write_text(EXPERIMENT)
