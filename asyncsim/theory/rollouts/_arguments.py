"""Arguments that predictions for rollouts share."""

from asyncsim import _checks as checks

ROUNDING = 1e-9  # relative: a number of groups that is whole up to rounding


def rate_of(mean: float, slots: int) -> float:
    """Λ = C/E L."""
    return checked_slots(slots) / checks.require_positive(
        "mean", mean, remedy="Give the mean generation time in seconds."
    )


def checked_slots(slots: int) -> int:
    """C, the number of slots, at least 1."""
    return checks.require_integer("slots", slots, least=1, remedy="Use one slot or more.")


def checked_samples(samples: int, name: str = "samples") -> int:
    """B or b, the samples or groups of a step, at least 1."""
    return checks.require_integer(name, samples, least=1, remedy="Give the samples or groups of a step.")


def checked_seconds(name: str, value: float) -> float:
    """Seconds, at least 0."""
    return checks.require_not_negative(name, value, remedy="Give seconds.")


def checked_lead(lead: float) -> float:
    """η, the lead in steps, at least 0."""
    return checks.require_not_negative("lead", lead, remedy="Give steps, for example 1.")
