"""Values that are computed once for an object go with the object."""

import gc
import weakref

import pytest

from asyncsim.components._remember import PerObject, cached_per_object


class Thing:
    def __eq__(self, other):
        return True

    __hash__ = None


def test_equal_objects_are_cached_apart():
    calls = []

    @cached_per_object
    def counted(thing, rest=0):
        calls.append(rest)
        return len(calls)

    one, other = Thing(), Thing()
    assert [counted(one), counted(other), counted(one), counted(one, 5), counted(one, 5)] == [1, 2, 1, 3, 3]


def test_a_cache_keeps_no_object_alive():
    @cached_per_object
    def named(thing):
        return "thing"

    thing = Thing()
    named(thing)
    watch = weakref.ref(thing)
    del thing
    gc.collect()
    assert watch() is None


def test_nothing_is_known_of_an_object_that_cannot_be_watched():
    """Another object may get its place later."""
    results = PerObject()
    with pytest.raises(TypeError):
        results.keep({}, 1)
    assert not results
