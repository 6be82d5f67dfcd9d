"""Movies of asynchronous SGD: the copy of each worker, messages under way, their effect, and their staleness.

Neighbours use `_graph` (movies of workers on a graph), `_movie` (a movie as a page or a film), `_page` (pages that need
nothing from outside), `_paths` (the way of a central variable through a plane) and `_report` (the interactive report of
a run).
"""

from asyncsim.animation._mechanism import mechanism
from asyncsim.animation._movie import Movie, animate

__all__ = ["Movie", "animate", "mechanism"]
