"""The moving pages of the documentation: `python docs/tools/moving.py FOLDER` writes them.

`conf.py` runs this in a process of its own, because Sphinx forks and JAX must not have started by then.
"""

import runpy
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
BEALE_SECONDS, GRAVITY_SECONDS = 24.0, 30.0
BEST_STEPS = {"DOWNPOUR": 7e-4, "GEM": 2e-3}  # of eight and ten step sizes, the median height after 24 s (beale.py)


def main(folder: Path) -> None:
    """Write the pages of Beale's function and of gravity, and a report."""
    import asyncsim as asim
    from asyncsim.study._run import write_html

    folder.mkdir(parents=True, exist_ok=True)
    two_rules().html(folder / "beale.html")
    gravity, defaults = scenario("gravity")
    gravity["movie"](**{**defaults, "seconds": GRAVITY_SECONDS}).html(folder / "gravity.html")
    cluster = asim.Cluster(
        workers=16,
        compute=asim.delays.fleet.two_classes(asim.delays.Gamma(mean=1.0, cv=0.3), workers=16, slow=2, factor=3.0),
        network=asim.Network(latency=asim.delays.Exponential(0.05)),
        server=asim.Server(service=asim.delays.Constant(0.05)),
    )
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=32)
    story = asim.Scenario(cluster=cluster, rule=asim.rules.GEM(0.1), workload=workload, commits_per_worker=60)
    write_html(asim.run(story), folder / "report.html")


def two_rules() -> Any:
    """Return the movie of DOWNPOUR and GEM on Beale's function, each at its own best step size."""
    import asyncsim as asim

    beale, defaults = scenario("beale")
    pair = {}
    for name, step in BEST_STEPS.items():
        trace, runs = beale["replays"](**{**defaults, "learning_rate": step})
        pair[f"{name}, η = {step:g}"] = runs[name]
    title = "Beale's function, each rule at its best step size"
    words = "Coloured dots mark the parameters that a worker still computes on. Choose a worker to see why GEM works."
    return asim.animate(trace, pair, stop=BEALE_SECONDS, window=beale["WINDOW"], title=title, subtitle=words)


def scenario(name: str) -> tuple[dict, dict]:
    """What a script of `scenarios/` defines, and the defaults of its experiment."""
    script = runpy.run_path(str(REPOSITORY / "scenarios" / f"{name}.py"))
    return script, {field.name: field.value for field in script["experiment"].fields()}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
