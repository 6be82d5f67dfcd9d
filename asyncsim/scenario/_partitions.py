"""Who has which examples, as fields of a scenario: the way of sharing them out, and what belongs to it."""

import inspect
from collections.abc import Iterator
from typing import Any

from asyncsim import _checks as checks
from asyncsim._fields import Field, described_arguments, kind_of
from asyncsim.datasets import Dataset, Partition, partition
from asyncsim.datasets._partition import ARGUMENTS, OWN, WAYS

FIELD, NONE = "partition", "none"
OF_WORKERS = f"{FIELD}_workers"  # how `override` says that the cluster has another number of workers
COMMON = ("least", "weighting", "seed")  # arguments that all ways of sharing out have
HELP = "Who has which training examples: every worker all of them (none), or a part; another way keeps the rest."
SPECIAL = {name: argument for name, argument in ARGUMENTS.items() if argument is not None}


def partition_fields(data: Any) -> list[Field]:
    """The fields of a workload with this data set, with present values; none without a data set."""
    if not isinstance(data, Dataset):
        return []
    if not isinstance(data, Partition):
        return [_choice(NONE)]
    settings = data.settings()
    return [_choice(settings["by"]), *(_field(name, value) for name, value in settings.items() if name != "by")]


def every_partition_field() -> Iterator[Field]:
    """All fields, without values, for the help of the command line."""
    yield _choice(None)
    for argument in dict.fromkeys(SPECIAL.values()):
        yield _field(argument, None, f" ({', '.join(way for way in SPECIAL if SPECIAL[way] == argument)})")
    yield from (_field(name, None) for name in COMMON)


def repartitioned(data: Any, changes: dict[str, Any], workers: int) -> Any:
    """The data set shared out anew where that changes; the fields are removed from `changes`."""
    resized = changes.pop(OF_WORKERS, False)
    given = {name: changes[name] for name in changes if name == FIELD or name.startswith(f"{FIELD}_")}
    if not isinstance(data, Dataset) or not (given or (resized and isinstance(data, Partition))):
        return data
    for name in given:
        del changes[name]
    present = data.settings() if isinstance(data, Partition) else {"by": NONE}
    by = checks.one_of(FIELD, given.pop(FIELD, present["by"]), (NONE, *WAYS, *([OWN] if present["by"] == OWN else [])))
    if by == OWN:
        raise ValueError(
            f"`workers` cannot be {workers} while who has which examples is of your own making; choose a `{FIELD}` "
            f"as well, one of {', '.join(WAYS)}."
        )
    wanted = {name.removeprefix(f"{FIELD}_"): value for name, value in given.items()}
    takes = () if by == NONE else (*([SPECIAL[by]] if by in SPECIAL else []), *COMMON)
    for name in wanted.keys() - set(takes):
        raise ValueError(_unknown(name, by, takes))
    if by == NONE:
        return data.data if isinstance(data, Partition) else data
    kept = {name: present[name] for name in takes if name in present}
    return partition(data, workers, by=by, **{**kept, **wanted})


def _unknown(name: str, by: str, takes: tuple[str, ...]) -> str:
    owners = [repr(way) for way in WAYS if name in (SPECIAL.get(way), *COMMON)]
    if owners:
        return f"`{FIELD}_{name}` is not a field of {FIELD} {by!r}, only of {', '.join(owners)}. Choose that as well."
    known = [f"{FIELD}_{one}" for one in takes] or [FIELD]
    return f"`{FIELD}_{name}` is not a field of this scenario.{checks.did_you_mean(f'{FIELD}_{name}', known)}"


def _choice(by: str | None) -> Field:
    return Field(FIELD, "text", HELP, "Workload", by, (NONE, *WAYS), NONE)


def _field(name: str, value: Any, owner: str = "") -> Field:
    parameter = inspect.signature(partition).parameters[name]
    help = described_arguments(inspect.getdoc(Partition) or "")[name]
    return Field(
        f"{FIELD}_{name}", kind_of(parameter.annotation), help + owner, "Workload", value, default=parameter.default
    )
