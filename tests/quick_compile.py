"""Less optimisation while compiling: what is tested is what a program computes, and most of the time is compilation."""

import jax
import pytest


@pytest.fixture(autouse=True)
def quick_compile():
    """JAX without most of XLA's optimisations; a test that is about these switches them on again."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
