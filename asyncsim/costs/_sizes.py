"""The sizes of messages, from a rule, its compressor and its workload."""

from typing import Any

import jax

from asyncsim.cluster import Cluster, Pipeline, Rollouts
from asyncsim.compressors import bytes_of
from asyncsim.engine import Run
from asyncsim.rules import Rule, message_bytes

UNSIZED = (Pipeline, Rollouts)  # whose messages are not updates


def sizes(of: Any) -> dict[str, Any]:
    """The arguments of `cost` that a scenario or its result defines: sizes of messages, and whether workers pull.

    An update has the size of the compressed message, indices counted, or that of the parameters. If a scenario's
    network has a `message_bytes` of its own, parameters have this size, and updates the same share of it.

    Args:
        of: A `Scenario`, a `Result`, or a `Run`, which has no data on the server.

    Returns:
        "message_bytes", "parameter_bytes", and of a simulated cluster "pulls".

    Raises:
        ValueError: If it is something else, or a scenario of a `Pipeline` or of `Rollouts`, whose messages are
            activations or samples.

    Example:
        >>> import asyncsim as asim
        >>> rule = asim.rules.compressed(asim.rules.Downpour(0.1), asim.compressors.ScaledSign())
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> scenario = asim.Scenario(cluster, rule, asim.workloads.Quadratic([1.0] * 32), commits=10)
        >>> asim.costs.sizes(scenario)
        {'message_bytes': 8, 'parameter_bytes': 128, 'pulls': False}
        >>> result = asim.run(scenario)
        >>> asim.cost(result.trace, **asim.costs.sizes(result)).bytes_up
        80
    """
    if isinstance(of, Run):
        return sizes_of(of.rule, _parameters(of))
    scenario = getattr(of, "scenario", of)
    if not all(hasattr(scenario, name) for name in ("cluster", "rule", "workload")):
        raise ValueError(f"`of` must be a Scenario, a Result or a Run; got {type(of).__name__}. Give sizes yourself.")
    if isinstance(scenario.cluster, UNSIZED):
        kind, remedy = type(scenario.cluster).__name__, "Give `message_bytes` and `parameter_bytes` to `cost`."
        raise ValueError(f"`of` must be about updates; the messages of a {kind} are others. {remedy}")
    return sizes_of(scenario.rule, _parameters(of.run if scenario is not of else scenario), scenario.cluster)


def sizes_of(rule: Rule, params: Any, cluster: Any = None) -> dict[str, Any]:
    """The sizes for parameters like these, and with a simulated cluster whether workers pull."""
    message, size = message_bytes(rule, params), bytes_of(params)
    if not isinstance(cluster, Cluster):
        return {"message_bytes": message, "parameter_bytes": size}
    network, server = cluster.network, cluster.server
    whole = size if network.message_bytes is None else network.message_bytes
    if network.message_bytes is not None or network.compression != 1:
        share = network.compression if rule.compression is None else message / size
        message, size = round(whole * share), round(whole)
    pulls = not server.atomic and server.pull == "before_commit"
    return {"message_bytes": message, "parameter_bytes": size, "pulls": pulls}


def _parameters(of: Any) -> Any:
    """The parameters, or their shapes."""
    if isinstance(of, Run) and not of.several:
        return of.central
    return jax.eval_shape(of.workload.init, jax.random.key(0))
