"""Drawing: functions that take an `ax`, draw on it and return what they drew.

Matplotlib is imported when they run, not before.
"""

from asyncsim.arguments import check_arguments
from asyncsim.plots.calibration import draw_band, draw_posterior, draw_proposal, draw_quantiles
from asyncsim.plots.comparison import draw_comparison, draw_final_losses
from asyncsim.plots.page import draw_title
from asyncsim.plots.pipeline import draw_timetable
from asyncsim.plots.report import draw_energies, draw_loss, draw_pi, draw_report, draw_seeds, running_mean
from asyncsim.plots.stability import draw_stability
from asyncsim.plots.staleness import draw_shares, draw_staleness, draw_staleness_by_worker
from asyncsim.plots.style import save_png, style
from asyncsim.plots.throughput import draw_throughput
from asyncsim.plots.timeline import draw_timeline
from asyncsim.plots.workers import draw_label_counts, draw_worker_losses

__all__ = [
    "draw_band",
    "draw_comparison",
    "draw_energies",
    "draw_final_losses",
    "draw_label_counts",
    "draw_loss",
    "draw_pi",
    "draw_posterior",
    "draw_proposal",
    "draw_quantiles",
    "draw_report",
    "draw_seeds",
    "draw_shares",
    "draw_stability",
    "draw_staleness",
    "draw_staleness_by_worker",
    "draw_throughput",
    "draw_timeline",
    "draw_timetable",
    "draw_title",
    "draw_worker_losses",
    "running_mean",
    "save_png",
    "style",
]

check_arguments(__name__, acts=True)
