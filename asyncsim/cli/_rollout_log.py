"""`asyncsim calibrate` of a log of rollouts: the laws of generation and of steps, and other leads."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from asyncsim._metrics import number
from asyncsim.calibration import Model, RolloutFit, calibrate
from asyncsim.calibration._laws import LIKELIHOOD
from asyncsim.calibration._rollouts import Interval, rollouts_of
from asyncsim.cli._output import print_table
from asyncsim.cluster import Rollouts
from asyncsim.plots import draw_band, draw_title
from asyncsim.plots.style import save_png
from asyncsim.store._files import to_plain, write_json
from asyncsim.trace import Trace

LEADS = (0.0, 1.0, 2.0, 4.0, 8.0)  # besides that of the log
SIZE = (10.0, 4.2)  # inches
LABELS = {"group_staleness": "mean staleness of groups", "steps_per_second": "steps per second"}
SHOWN = ("group_staleness", "staleness_max", "steps_per_second", "trainer_idle", "slots_idle", "wasted")


class FittedLog(NamedTuple):
    """A fit, and the summary of its rollouts with every lead."""

    fit: RolloutFit
    leads: tuple[float, ...]
    found: list[dict[str, Interval]]
    notes: tuple[str, ...]

    @property
    def numbers(self) -> dict[str, Any]:
        """As JSON has them."""
        what_if = [
            {"lead": lead, **{name: one._asdict() for name, one in summary.items()}}
            for lead, summary in zip(self.leads, self.found, strict=True)
        ]
        parameters = {name: parameter._asdict() for name, parameter in self.fit.parameters.items()}
        content = {"rollouts": repr(self.fit.rollouts), "parameters": parameters, "log": self.fit.log}
        return dict(to_plain({**content, "what_if": what_if, "notes": self.notes}))

    def write(self, folder: Path, log: str) -> None:
        """Write fit.json and calibration.png."""
        write_json(folder / "fit.json", self.numbers)
        if self.found:
            save_png(folder / "calibration.png", partial(self.draw, log), SIZE)

    def print(self, folder: Path) -> None:
        """The parameters, the numbers for each lead, and the notes."""
        rows = [(name, *map(number, one[:3])) for name, one in self.fit.parameters.items()]
        print_table(("parameter", "estimate", "5 %", "95 %"), rows)
        click.echo()
        own = self.fit.rollouts.lead
        head = ["none" if lead == np.inf else number(lead) for lead in self.leads]
        table = [
            (
                name.replace("_", " "),
                number(self.fit.log.get(name)),
                *(number(summary[name].median) for summary in self.found),
            )
            for name in SHOWN
        ]
        if self.found:
            print_table(("lead", "log", *head), table)
            given = "has no lead" if own is None else f"has the lead {number(own)}"
            click.echo(f"\nMedians of simulations with the fitted laws. The system of the log {given}.")
        for note in self.notes:
            click.echo(f"\n{note}")
        click.echo(f"\nFit{' and picture' if self.found else ''} in {folder}")

    def draw(self, log: str, figure: Any) -> None:
        """Staleness and speed over the lead, with intervals, and the log's own."""
        leads = [lead for lead in self.leads if lead < np.inf]
        for ax, (name, label) in zip(figure.subplots(1, 2), LABELS.items(), strict=True):
            low, median, high = np.array(
                [(s[name].low, s[name].median, s[name].high) for s in self.found[: len(leads)]]
            ).T
            draw_band(ax, leads, low, median, high)
            ax.axhline(self.fit.log[name], color="0.4", linestyle=":", label="the log")
            ax.set(xlabel="lead, in steps", ylabel=label, ylim=(0, None))
            ax.legend(fontsize="small")
        draw_title(figure, f"Rollouts fitted to {log}", "Medians of simulations with the fitted laws, and 90 % of them")


def fit_log(
    log: Trace, model: Model | Rollouts | None, law: Any, seed: int, *, method: str | None, quick: bool
) -> FittedLog:
    """Fit rollouts, and simulate them with other leads."""
    if isinstance(model, Model):
        raise ValueError("`model` must be `asim.Rollouts(…)` for a log of rollouts; got a Model. Define such a one.")
    if method not in (None, LIKELIHOOD):
        raise ValueError(f"`method` must be {LIKELIHOOD!r} for a log of rollouts; got {method!r}. Leave it out.")
    notes: tuple[str, ...] = ()
    if model is None:
        model = rollouts_of(log)
        notes = (
            f"No Rollouts were given by --model: a group counts as one sample on one of {model.slots} slots, and the "
            f"lead {number(model.lead)} is the smallest that the log allows.",
        )
    fit = calibrate(log, model, law=law, seed=seed)
    own = np.inf if model.lead is None else model.lead
    leads = () if quick else tuple(sorted({*LEADS, own}))
    found = [fit.what_if(seed=seed, lead=None if lead == np.inf else lead, draws=8) for lead in leads]
    return FittedLog(fit, leads, found, (*notes, *fit.notes))
