"""Asynchronous SGD, moving: where each worker read, what is under way, what a message does, how stale it is."""

from asyncsim._arguments import check_arguments
from asyncsim.animation._movie import Movie, animate

__all__ = ["Movie", "animate"]

check_arguments(__name__, ["animate"], acts=True)
