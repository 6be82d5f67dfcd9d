"""A scenario: one study as one frozen object, its fields, and its parts."""

from asyncsim._arguments import check_arguments
from asyncsim.scenario._scenario import Scenario

__all__ = ["Scenario"]

check_arguments(__name__)
