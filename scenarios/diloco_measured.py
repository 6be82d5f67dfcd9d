"""How fast must the network be? The busy share of DiLoCo over bandwidth and window, measured and simulated.

Four GPUs train by DiLoCo, whose workers make H local steps and then exchange their displacements of 123 MB by a ring
all-reduce. The points are medians of three measured runs each. The dashed lines are simulated from two measured
numbers, the seconds of a local step and the bandwidth of a link: for H = 1 and 8 at 0.2 to 5 Gbit/s they are within
11 % of the measured busy share. For the solid lines two more numbers are fitted to all runs but those at 50 Mbit/s, the
share of the bandwidth that an exchange gets (0.94) and a wait in each local step (2.1 ms). These are within 5.1 %, with
a median of 2.6 %. At 50 Mbit/s they are 9 to 20 % above the measured busy share, which nobody has explained.

On the right, contours answer the reverse question for a cluster of your own, and below the table three numbers do for
one window: which bandwidth gives a busy share of 50, 75 and 90 %? By default it is the measured cluster, with the
fitted wait and share of the bandwidth. A dash means that no bandwidth is enough, because the wait alone takes more.

    asyncsim run scenarios/diloco_measured.py
    asyncsim run scenarios/diloco_measured.py --workers 16 --parameter-bytes 4e9 --step-seconds 0.8 --cv 0.1 --window 50

The measurements are those of the public repository Adnan082/diloco-measured (Apache-2.0, 2026): four machines with an
L40S each, links shaped with tc, 30 846 720 float32 parameters.
"""

import numpy as np

import asyncsim as asim
from asyncsim.delays import Constant, Gamma
from asyncsim.plots.style import BLUE, GREEN, SKY, VERMILION

# H, nominal and measured Gbit/s, counted local steps after 10 others, ms of a local step, busy share: medians of three.
MEASURED = np.array(
    [
        (1, 0.05, 0.04961, 10, 26.63, 0.0007),
        (1, 0.2, 0.1985, 30, 26.59, 0.003202),
        (1, 1, 0.9926, 90, 26.61, 0.01737),
        (1, 5, 4.964, 90, 26.68, 0.07756),
        (8, 0.05, 0.04962, 72, 25.37, 0.005358),
        (8, 0.2, 0.1985, 140, 25.34, 0.02463),
        (8, 1, 0.9926, 140, 25.41, 0.1219),
        (8, 5, 4.964, 140, 25.36, 0.3952),
        (32, 0.05, 0.04962, 140, 25.25, 0.02304),
        (32, 0.2, 0.1985, 140, 25.21, 0.09622),
        (32, 1, 0.9926, 140, 25.28, 0.3558),
        (32, 5, 4.964, 140, 25.22, 0.6761),
        (128, 0.05, 0.04963, 180, 25.25, 0.1143),
        (128, 0.2, 0.1985, 180, 25.27, 0.348),
        (128, 1, 0.9926, 180, 25.29, 0.7085),
        (128, 5, 4.964, 180, 25.27, 0.8604),
    ]
)
MACHINES, UPDATE_BYTES, SKIPPED = 4, 30_846_720 * 4, 10  # of the measured runs
LEAST = 0.1  # Gbit/s from which on runs are fitted
BITS = 8e-9  # Gbit in a byte
SHARES = (0.5, 0.75, 0.9)
COLORS = (VERMILION, SKY, GREEN, BLUE)


def compute(
    workers=MACHINES,
    window=128,
    parameter_bytes=float(UPDATE_BYTES),
    step_seconds=0.0253,
    wait_seconds=0.0021,
    bandwidth_share=0.94,
    latency=0.0,
    cv=0.0,
    most_steps=512,
    most_gigabits=100.0,
    rounds=200,
) -> dict[str, np.ndarray]:
    """Busy shares of the measured runs, and those of a cluster over windows and bandwidths.

    Args:
        workers: Number of workers of the cluster on the right.
        window: Local steps in a window, H, for which the table names the bandwidths.
        parameter_bytes: Bytes of an update.
        step_seconds: Mean seconds of a local step.
        wait_seconds: Seconds of waiting in each local step, during which nothing is computed.
        bandwidth_share: Share of a link's bandwidth that an exchange gets.
        latency: Seconds that a message takes besides its bytes.
        cv: Coefficient of variation of the seconds of a local step, which are independent.
        most_steps: Largest window H of the picture.
        most_gigabits: Largest bandwidth, in Gbit/s.
        rounds: Simulated rounds of each window, if `cv` is not 0.
    """
    share, wait = fitted()
    steps, nominal, _, _, _, busy = MEASURED.T
    alone, both = simulated(1.0, 0.0), simulated(share, wait)
    used = nominal > LEAST
    windows = np.union1d(np.geomspace(1, max(most_steps, window), 40).round(), window).astype(int)
    gigabits = np.geomspace(0.01, most_gigabits, 80)
    rest = np.array(
        [seconds_without_bytes(h, workers, step_seconds, wait_seconds, latency, cv, rounds) for h in windows]
    )
    ring = asim.Network(bandwidth=bandwidth_share, message_bytes=parameter_bytes * BITS, collective="ring")
    exchange = ring.exchange_seconds(workers)  # at 1 Gbit/s
    useful = windows * step_seconds

    def needed(share: float) -> np.ndarray:
        """Gbit/s at which a round leaves this share for computing, infinite if waiting alone takes more."""
        spare = useful / share - rest
        return np.where(spare > 0, exchange / np.where(spare > 0, spare, 1), np.inf)[windows == window]

    return {
        "window": steps,
        "gigabits": nominal,
        "measured": busy,
        "from_measured_numbers": alone,
        "with_two_fitted_numbers": both,
        "error": alone / busy - 1,
        "error_of_fit": both / busy - 1,
        "fitted_share": np.array(share),
        "fitted_wait_seconds": np.array(wait),
        "median_error": np.median(abs(both / busy - 1)[used]),
        "largest_error": abs(both / busy - 1)[used].max(),
        "windows": windows,
        "bandwidths": gigabits,
        "busy": useful[:, None] / (rest[:, None] + exchange / gigabits),
        **{f"gigabits_for_{share:.0%}".replace("%", "_percent"): needed(share)[0] for share in SHARES},
    }


def simulated(share: float, wait: float) -> np.ndarray:
    """The busy shares of the measured runs, with a share of the bandwidth and seconds of waiting in a local step.

    The counted steps hold as many exchanges as they did in the measurement, which may be one more or less than usual.
    """
    busy = []
    for window, _, gigabits, steps, milliseconds, _ in MEASURED:
        step = milliseconds / 1000
        network = asim.Network(bandwidth=share * gigabits / BITS, message_bytes=UPDATE_BYTES, collective="ring")
        cluster = asim.Cluster(
            MACHINES,
            Constant(step + wait),
            network=network,
            protocol=asim.protocols.Synchronous(),
            local_steps=int(window),
        )
        trace = asim.simulate(cluster, commits=MACHINES)
        exchange = trace.commit_time[-1] - trace.serve_time[-1]
        exchanges = (SKIPPED + steps) // window - SKIPPED // window
        busy.append(steps * step / (steps * (step + wait) + exchanges * exchange))
    return np.array(busy)


def fitted() -> tuple[float, float]:
    """The share of the bandwidth and the wait with the least squares of relative errors, slowest links left out."""
    from scipy.optimize import least_squares

    used = MEASURED[:, 1] > LEAST

    def errors(guess: np.ndarray) -> np.ndarray:
        return np.log(simulated(*guess) / MEASURED[:, -1])[used]

    solution = least_squares(errors, [0.9, 0.004], x_scale=[0.1, 0.001], diff_step=1e-4)
    return float(solution.x[0]), float(solution.x[1])


def seconds_without_bytes(
    window: int, workers: int, step: float, wait: float, latency: float, cv: float, rounds: int
) -> float:
    """Mean seconds of a round whose exchange has no bytes: the slowest worker's window, and the latencies."""
    law = Gamma(step + wait, cv * step / (step + wait)) if cv else Constant(step + wait)
    cluster = asim.Cluster(
        workers,
        law,
        network=asim.Network(latency=Constant(latency), collective="ring"),
        protocol=asim.protocols.Synchronous(),
        local_steps=window,
    )
    rounds = rounds if cv else 1
    return asim.simulate(cluster, commits=workers * rounds).seconds / rounds


def draw(figure, numbers) -> None:
    """Measured and simulated busy shares on the left, and the contours on the right."""
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    for color, window in zip(COLORS, np.unique(numbers["window"]), strict=False):
        row = numbers["window"] == window
        x = numbers["gigabits"][row]
        left.plot(x, numbers["from_measured_numbers"][row], "--", color=color, linewidth=1)
        left.plot(x, numbers["with_two_fitted_numbers"][row], color=color)
        left.plot(x, numbers["measured"][row], "o", color=color, markersize=5, label=f"H = {window:g}")
    left.set(xscale="log", yscale="log", xlabel="bandwidth, Gbit/s", ylabel="busy share of the GPUs")
    left.legend(title="points: measured\ndashed: simulated\nlines: fitted", fontsize="small", title_fontsize="small")
    colors = VERMILION, GREEN, BLUE
    right.contour(numbers["bandwidths"], numbers["windows"], numbers["busy"], levels=SHARES, colors=colors)
    for share, color in zip(SHARES, colors, strict=True):
        right.plot([], [], color=color, label=f"{share:.0%}")
    right.set(xscale="log", yscale="log", xlabel="bandwidth, Gbit/s", ylabel="local steps H in a window")
    right.legend(title="busy share", fontsize="small", title_fontsize="small")


experiment = asim.Experiment(compute, draw, title="How fast must DiLoCo's network be?", size=(9.6, 4.4))

if __name__ == "__main__":
    asim.main(experiment)
