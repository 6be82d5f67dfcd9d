"""Two CPU devices for every test, so that sharing lanes is tested too; and shared fixtures."""

import jax
import pytest
from hypothesis import settings

jax.config.update("jax_num_cpu_devices", 2)
settings.register_profile("patient", deadline=None)  # a first example compiles, and tests share the cores
settings.load_profile("patient")


@pytest.fixture
def x64():
    """JAX in 64-bit mode, for comparisons to rounding."""
    with jax.enable_x64(True):
        yield
