"""What a calibration by simulation found: draws from a neural posterior, and how far they can be trusted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from asyncsim.calibration.model_fit import ModelFit, fields_of
from asyncsim.calibration.result import FORMAT_VERSION, READERS

METHOD = "npe"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Posterior(ModelFit):
    """A `ModelFit` by simulation: samples are from a neural posterior, and intervals are corrected by its coverage.

    Attributes:
        coverage: Name -> share of 90 % intervals that held the truth, on simulations that were held back, before the
            level of the intervals was corrected by it.
        held_back: How many these were.
        simulations: On how many the posterior was learned.
    """

    coverage: Mapping[str, float] = field(default_factory=dict)
    held_back: int = 0
    simulations: int = 0

    def _way(self) -> str:
        return f"by {self.simulations:,} simulations"

    def as_json(self) -> dict[str, Any]:
        """As plain data, for `save`."""
        own = {name: getattr(self, name) for name in ("coverage", "held_back", "simulations")}
        return {**super().as_json(), "version": FORMAT_VERSION, "kind": METHOD, **own}


def read_posterior(found: Mapping[str, Any]) -> Posterior:
    """What `as_json` gave, from a file.

    Raises:
        KeyError: If something is missing.
        ValueError: If a cluster has parts of the user's own.
    """
    own = {name: found[name] for name in ("coverage", "held_back", "simulations")}
    return Posterior(**fields_of(found), **own)


READERS[METHOD] = read_posterior
