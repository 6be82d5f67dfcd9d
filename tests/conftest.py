"""Two CPU devices for every test, so that sharing lanes is tested too; and shared fixtures."""

import jax
import pytest

jax.config.update("jax_num_cpu_devices", 2)


@pytest.fixture
def x64():
    """JAX in 64-bit mode, for comparisons to rounding."""
    with jax.enable_x64(True):
        yield
