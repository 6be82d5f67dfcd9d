"""Asynchronous SGD, moving: where each worker read, what is under way, what a message does, how stale it is."""

from asyncsim.animation.movie import Movie, animate
from asyncsim.arguments import check_arguments

__all__ = ["Movie", "animate"]

check_arguments(__name__, ["animate"], acts=True)
