"""Invalid arguments are refused in one line: argument, value, remedy."""

import numpy as np
import pytest

from asyncsim import faults, protocols
from asyncsim.cluster import Cluster, Network, Server, simulate
from asyncsim.cluster import _simulation as simulation
from asyncsim.delays import Constant, Exponential

ONE = Constant(1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: protocols.KSync(0), "`k` must be an integer of at least 1; got 0"),
        (lambda: Cluster(4, ONE, protocol=protocols.KSync(5)), "`k` must be at most .*; got 5 for 4 workers"),
        (lambda: Cluster(4, ONE, protocol=protocols.KAsync(5)), "`k` must be at most .*; got 5 for 4 workers"),
        (
            lambda: Cluster(4, ONE, protocol=protocols.Synchronous(backup=4)),
            "`backup` must be less than .*; got 4 for 4",
        ),
        (lambda: protocols.Synchronous(backup=-1), "`backup` must be an integer of at least 0; got -1"),
        (lambda: protocols.SSP(-1), "`slack` must be an integer of at least 0; got -1"),
        (lambda: protocols.SSP(1.5), "`slack` must be an integer of at least 0; got 1.5"),
        (lambda: protocols.Ringmaster(0), "`limit` must be an integer of at least 1; got 0"),
        (lambda: protocols.Malenia(0), "`batch` must be an integer of at least 1; got 0"),
        (lambda: protocols.Rennala(0), "`batch` must be an integer of at least 1; got 0"),
        (lambda: protocols.KBatchAsync(2.0), "`k` must be an integer of at least 1; got 2.0"),
        (lambda: Cluster(4, ONE, protocol="async"), "`protocol` must be an asyncsim .*; got 'async'. Give"),
        (lambda: Cluster(4, ONE, protocol=protocols.Asynchronous), "`protocol` must be an asyncsim"),
        (lambda: Network(bandwidth=0.0), "`bandwidth` must be finite and positive; got 0.0"),
        (lambda: Network(bandwidth=-1.0), "`bandwidth` must be finite and positive; got -1.0"),
        (lambda: Network(bandwidth=np.nan), "`bandwidth` must be finite and positive; got nan"),
        (lambda: Network(upload_bandwidth=0.0), "`upload_bandwidth` must be finite and positive; got 0.0"),
        (lambda: Network(latency=0.5), "`latency` must be a law of delays or a sequence of them; got 0.5"),
        (lambda: Network(message_bytes=-4), "`message_bytes` must be finite and not negative; got -4"),
        (lambda: Network(compression=0), "`compression` must be finite and positive; got 0"),
        (
            lambda: Cluster(3, ONE, network=Network(latency=[ONE])),
            "`latency` must have one law per worker; got 1 for 3",
        ),
        (lambda: Cluster(3, ONE, network=1e9), "`network` must be an asyncsim Network; got 1000000000.0"),
        (lambda: Server(slots=0), "`slots` must be an integer of at least 1; got 0"),
        (lambda: Server(service=0.1), "`service` must be a law of delays; got 0.1. Use one of"),
        (lambda: Server(atomic=Constant(1.0)), "`atomic` must be True or False; got Constant"),
        (lambda: Server(pull="at_commit"), "`pull` must be one of .*; got 'at_commit'. Did you mean 'before_commit'"),
        (lambda: Cluster(3, ONE, server=Exponential(1.0)), "`server` must be an asyncsim Server; got Exponential"),
        (lambda: Cluster(3, ONE, faults=[faults.Crash(3, 1.0)]), "workers 0 to 2; entry 0 names worker 3"),
        (lambda: Cluster(3, ONE, faults=["crash"]), "`faults` must hold faults; entry 0 is 'crash'"),
        (lambda: faults.Crash(-1, 1.0), "`worker` must be an integer of at least 0; got -1"),
        (lambda: faults.Crash(0, -1.0), "`time` must be finite and not negative; got -1.0"),
        (lambda: faults.Crash(0, 1.0, restart_after=-1), "`restart_after` must be finite and not negative; got -1"),
        (lambda: faults.Slowdown(0, 0.0, 0.0, 2.0), "`seconds` must be finite and positive; got 0.0"),
        (lambda: faults.Slowdown(0, 0.0, 1.0, 0.0), "`factor` must be finite and positive; got 0.0"),
        (lambda: faults.MessageLoss(1.0, 1.0), "`probability` must be less than 1; got 1.0"),
        (lambda: faults.MessageLoss(0.1, 0.0), "`timeout` must be finite and positive; got 0.0"),
        (lambda: faults.MessageLoss(0.1, 1.0, attempts=0), "`attempts` must be an integer of at least 1; got 0"),
        (lambda: faults.Sessions(Constant(0.0), ONE), "`online` must have a positive mean"),
        (lambda: faults.ServerPause(0.0, 2.0, every=1.0), "`every` must be more than `seconds`; got 1.0 and 2.0"),
        (
            lambda: simulate(Cluster(2, ONE, network=Network(bandwidth=1e9)), commits=1),
            "`message_bytes` must be given with a finite `bandwidth`; got None with 1e.09",
        ),
        (
            lambda: simulate(Cluster(2, Constant(0.0), server=Server(slots=2)), seconds=1.0),
            "`seconds` never pass while worker 0 has only zero delays",
        ),
        (
            lambda: simulate(Cluster(1, Constant(0.0), protocol=protocols.SSP(0)), seconds=1.0),
            "`seconds` never pass: 10000 events at time 0 and no end",
        ),
    ],
)
def test_one_line_with_name_value_and_remedy(make, message, monkeypatch):
    monkeypatch.setattr(simulation, "PATIENCE", 10_000)
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
