"""Drawing: functions that take an `ax`, draw on it and return the artists.

Matplotlib is imported when they run, not before.

Neighbours use the module of a picture, `_calibration`, `_comparison`, `_report`, `_stability`, `_staleness`, `_sweep`
or `_timeline`, and `_page` (titles, legends and axes of all).
"""

from asyncsim.plots._calibration import draw_band, draw_proposal
from asyncsim.plots._page import use_plain_numbers
from asyncsim.plots._report import draw_energies, draw_loss, draw_pi, draw_report, draw_seeds, running_mean
from asyncsim.plots._stability import draw_stability
from asyncsim.plots._staleness import draw_staleness, draw_staleness_by_worker
from asyncsim.plots._throughput import draw_throughput
from asyncsim.plots._timeline import draw_time_budget, draw_timeline, draw_timetable
from asyncsim.plots._workers import draw_label_counts, draw_worker_losses
from asyncsim.plots.style import save_png, style

__all__ = [
    "draw_band",
    "draw_energies",
    "draw_label_counts",
    "draw_loss",
    "draw_pi",
    "draw_proposal",
    "draw_report",
    "draw_seeds",
    "draw_stability",
    "draw_staleness",
    "draw_staleness_by_worker",
    "draw_throughput",
    "draw_time_budget",
    "draw_timeline",
    "draw_timetable",
    "draw_worker_losses",
    "running_mean",
    "save_png",
    "style",
    "use_plain_numbers",
]
