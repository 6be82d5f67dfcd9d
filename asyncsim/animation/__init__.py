"""Asynchronous SGD, moving: where each worker read, what is under way, what a message does, how stale it is."""

from asyncsim._arguments import check_arguments
from asyncsim.animation._mechanism import mechanism
from asyncsim.animation._movie import Movie, animate

__all__ = ["Movie", "animate", "mechanism"]

check_arguments(__name__, ["animate"], acts=True)
