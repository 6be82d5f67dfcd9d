"""The moving pages of the documentation: `python docs/tools/moving.py FOLDER` writes them.

`conf.py` runs this in a process of its own, because Sphinx forks and JAX must not have started by then.
"""

import runpy
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
BEALE_SECONDS, GRAVITY_SECONDS = 24.0, 30.0


def main(folder: Path) -> None:
    """Write the pages of Beale's function and of gravity, and a report."""
    import asyncsim as asim
    from asyncsim.study._run import write_html

    folder.mkdir(parents=True, exist_ok=True)
    beale, defaults = scenario("beale")
    trace, runs = beale["replays"](**defaults)
    pair = {name: runs[name] for name in ("DOWNPOUR", "GEM")}
    title = "Twenty workers on Beale's function, one schedule"
    words = "Coloured dots mark the parameters that a worker still computes on. Choose a worker to see why GEM works."
    asim.animate(trace, pair, stop=BEALE_SECONDS, window=beale["WINDOW"], title=title, subtitle=words).html(
        folder / "beale.html"
    )
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


def scenario(name: str) -> tuple[dict, dict]:
    """What a script of `scenarios/` defines, and the defaults of its experiment."""
    script = runpy.run_path(str(REPOSITORY / "scenarios" / f"{name}.py"))
    return script, {field.name: field.value for field in script["experiment"].fields()}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
