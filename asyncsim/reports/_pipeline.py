"""Pipelines: the staleness of their stages and the time that they wait, predicted and measured."""

from typing import Any

from asyncsim.cluster import Pipeline
from asyncsim.cluster._pipeline import SYNCHRONOUS, Timetable
from asyncsim.delays import Delay
from asyncsim.delays._per_worker import expand
from asyncsim.reports.rollouts import Prediction
from asyncsim.theory import pipeline_bubble, pipeline_staleness
from asyncsim.trace import Trace


def measured(pipeline: Pipeline, trace: Trace, timetable: Timetable, warm_up: int) -> dict[str, Any]:
    """Mean staleness of every stage after a warm-up, micro-batches per second, and the idle share of the stages."""
    names = [f"stage{stage}" for stage in range(pipeline.stages)]
    rows = trace.group_staleness[warm_up:] if trace.groups else trace.staleness[warm_up:, None].repeat(len(names), 1)
    means = {name: float(mean) for name, mean in zip(names, rows.mean(axis=0), strict=True)}
    times = trace.commit_time[warm_up:]
    rate = (len(times) - 1) / float(times[-1] - times[0]) if len(times) > 1 else float("nan")
    return {**means, "commits_per_second": rate, "idle": timetable.idle}


def predictions(pipeline: Pipeline) -> dict[str, list[Prediction]]:
    """Name of a measured number -> predictions, of the results whose assumptions this pipeline meets."""
    forward, backward = (expand(law, pipeline.stages) for law in (pipeline.forward, pipeline.backward_law))
    laws = [law for law in (*forward, *backward, pipeline.transfer) if isinstance(law, Delay)]
    alike = len(set(forward)) == len(set(backward)) == 1
    constant = alike and all(law.variance == 0 for law in laws)
    found: dict[str, list[Prediction]] = {}
    if pipeline.schedule != "concurrent" or (constant and laws[0].mean >= laws[pipeline.stages].mean):
        times = {} if pipeline.schedule != "concurrent" else {"forward": laws[0].mean, "backward": laws[-2].mean}
        transfer = pipeline.transfer.mean if times else 0.0
        stale = pipeline_staleness(pipeline.stages, pipeline.schedule, **times, transfer=transfer)
        reason = "for any law, once the pipeline is full" if not times else "constant times, once the pipeline is full"
        found = {f"stage{stage}": [Prediction(float(value), "=", reason)] for stage, value in enumerate(stale)}
    if pipeline.schedule in SYNCHRONOUS and constant and pipeline.transfer.mean == 0:
        assert pipeline.micro_batches is not None
        bubble = pipeline_bubble(pipeline.stages, pipeline.micro_batches)
        found["idle"] = [Prediction(bubble, "=", "equal constant passes, whole mini-batches")]
    return found
