"""Movies of asynchronous SGD: the copy of each worker, messages under way, their effect, and their staleness."""

from asyncsim._arguments import check_arguments
from asyncsim.animation._mechanism import mechanism
from asyncsim.animation._movie import Movie, animate

__all__ = ["Movie", "animate", "mechanism"]

check_arguments(__name__, ["animate"], acts=True)
