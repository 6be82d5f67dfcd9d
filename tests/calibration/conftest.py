"""Requirements that every fit must meet, by whatever method."""

import pytest

import asyncsim as asim


@pytest.fixture
def assert_kept_whole(tmp_path):
    """A fit that was saved and loaded is the same, with draws and checks."""

    def check(fit):
        fit.save(tmp_path / "fit.json")
        again = asim.Fit.load(tmp_path / "fit.json")
        assert repr(again) == repr(fit)
        assert repr(again.parameters) == repr(fit.parameters)  # NaN of what is not observed equals nothing
        assert (again.cluster, again.sample(5), again.notes) == (fit.cluster, fit.sample(5), fit.notes)
        assert (again.log, again.check(8)) == (fit.log, fit.check(8))
        assert (again.draws == fit.draws).all()
        assert fit.sample(2, workers=40)[0].workers == fit.with_workers(40).workers == 40
        return tmp_path / "fit.json"

    return check


@pytest.fixture
def judged_by_few(monkeypatch):
    """A model that does not fit is refuted by 16 simulated logs instead of 64."""
    monkeypatch.setattr("asyncsim.calibration._fit.LOGS_OF_VERDICT", 16)
