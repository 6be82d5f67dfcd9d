"""Asynchronous SGD, moving: where each worker read, what is under way, what a message does, how stale it is."""

from asyncsim.animation.movie import Movie, animate

__all__ = ["Movie", "animate"]
