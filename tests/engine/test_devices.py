"""Several devices that share the lanes give the same result as one device."""

import subprocess
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import asyncsim as asim
from asyncsim.engine import _devices as devices
from asyncsim.engine import _replay as replayer
from asyncsim.engine._replay import Replayer
from tests.engine import test_behaviour
from tests.problems import TRACES, gamma_trace, noisy_quadratic, tree_workload


@pytest.fixture
def share_everything(monkeypatch):
    if jax.local_device_count() < 2:
        pytest.skip("JAX has one device here; sharing lanes needs two")
    monkeypatch.setattr(devices, "HEAVY_GRADIENT", 0)


@pytest.mark.parametrize(
    ("workload", "seed", "kind"), [(tree_workload, (3, 4), "ordinary"), (noisy_quadratic, 3, "everything")]
)
def test_two_devices_equal_one(workload, seed, kind, share_everything, x64):
    trace, rule, workload = TRACES[kind][0](workers=7, commits=90), asim.rules.GEM(0.05), workload()
    layout = Replayer(trace, rule, workload, seed).layout
    assert (layout.devices, layout.lanes) == (2, 8)
    shared = asim.replay(trace, rule, workload, seed, record=("energy_proxy",))
    alone = asim.replay(trace, rule, workload, seed, record=("energy_proxy",), lanes=1)
    np.testing.assert_allclose(shared.loss, alone.loss, rtol=1e-10)
    np.testing.assert_allclose(shared.records["energy_proxy"], alone.records["energy_proxy"], rtol=1e-9)
    half = asim.replay(trace, rule, workload, seed, record=("energy_proxy",), commits=64)
    np.testing.assert_array_equal(asim.replay(trace, rule, workload, seed, resume=half).loss, shared.loss)


@pytest.mark.parametrize(
    ("workload", "seed", "how"),
    [
        (tree_workload, 3, "shared"),
        (tree_workload, (3, 4), "batched"),
        (tree_workload, (3, 4), "seeds in turn"),
        (noisy_quadratic, (3, 4), "shared"),
        (test_behaviour.workload, (3, 4), "shared"),
    ],
)
def test_batched_lanes_equal_lanes_in_turn(workload, seed, how, monkeypatch, x64):
    """The program of one accelerator, or of several, or of heavy seeds in turn, run on the CPU."""
    trace, rule, workload = gamma_trace(workers=7, commits=90), asim.rules.GEM(0.05), workload()
    if workload.asks_behaviour:
        trace, rule = asim.simulate(test_behaviour.ROLLOUTS, commits=40), asim.rules.Downpour(0.05)
    alone = asim.replay(trace, rule, workload, seed, lanes=1)
    mesh, in_turn = Mesh(np.array(jax.local_devices()[:2]), ("lanes",)), how == "seeds in turn"
    chosen = devices.Lanes(4, batched=not in_turn, in_turn=in_turn, mesh=mesh if how == "shared" else None)
    monkeypatch.setattr(replayer, "choose_lanes", lambda *_: chosen)
    batched = Replayer(trace, rule, workload, seed)
    assert batched.layout.batched != in_turn
    while not batched.finished():
        batched.advance()
    np.testing.assert_allclose(batched.run().loss, alone.loss, rtol=1e-10)


class TestIdleCores:
    """A long replay of heavy gradients on one of several cores says so, once, where `replay` was called."""

    @pytest.fixture
    def one_of_two(self, monkeypatch):
        """A machine of two cores, on which JAX has one device and nobody chose it."""
        monkeypatch.setattr(devices, "HEAVY_GRADIENT", 0)
        monkeypatch.setattr(devices, "LONG_WORK", 0)
        monkeypatch.setattr(devices, "cores", lambda: 2)
        monkeypatch.setattr(devices, "devices_chosen", lambda: False)
        monkeypatch.setattr(devices.jax, "local_device_count", lambda: 1)
        devices._say_that_cores_are_idle.cache_clear()
        yield
        devices._say_that_cores_are_idle.cache_clear()

    @staticmethod
    def replay(**options):
        return asim.replay(gamma_trace(workers=2, commits=4), asim.rules.GEM(0.05), noisy_quadratic(), **options)

    def test_idle_cores_are_warned_of_once(self, one_of_two):
        with pytest.warns(UserWarning, match=r"on one of 2 cores. Call `asyncsim.use_all_cores\(\)`") as caught:
            self.replay()
        assert [one.filename for one in caught] == [__file__]
        self.replay()

    @pytest.mark.parametrize(
        ("name", "value"),
        [("HEAVY_GRADIENT", 1e9), ("LONG_WORK", 1e9), ("cores", lambda: 1), ("devices_chosen", lambda: True)],
    )
    def test_no_warning_if_more_devices_would_not_pay(self, name, value, one_of_two, monkeypatch):
        monkeypatch.setattr(devices, name, value)
        self.replay()
        self.replay(lanes=1)

    def test_commits_of_a_resumed_run_do_not_count(self, one_of_two, monkeypatch):
        size = sum(leaf.size for leaf in jax.tree.leaves(noisy_quadratic().init(jax.random.key(0))))
        monkeypatch.setattr(devices, "LONG_WORK", 3 * size)
        half = self.replay(commits=2)
        self.replay(resume=half)
        with pytest.warns(UserWarning, match="one of 2 cores"):
            self.replay(commits=3)


class TestUseAllCores:
    @pytest.fixture
    def nobody_chose(self, monkeypatch):
        """As in a new process, except that JAX may have started already."""
        for name in ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS"):
            monkeypatch.delenv(name, raising=False)

    def test_jax_gets_a_device_for_each_core(self, nobody_chose):
        code = """if True:
            import jax, asyncsim as asim
            from asyncsim.engine import _devices as devices
            devices.cores = lambda: 3
            asim.use_all_cores()
            print(jax.local_device_count())
        """
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr

    @pytest.mark.parametrize(
        ("name", "value"),
        [("JAX_NUM_CPU_DEVICES", "3"), ("XLA_FLAGS", "--xla_force_host_platform_device_count=3"), ("other", "0")],
    )
    def test_the_users_number_of_devices_stays(self, nobody_chose, monkeypatch, name, value):
        """JAX refuses to change its devices once it has started."""
        asked, before = [], jax.local_device_count()
        config = SimpleNamespace(jax_num_cpu_devices=-1, update=lambda *a: asked.append(a) or jax.config.update(*a))
        monkeypatch.setattr(devices, "jax", SimpleNamespace(config=config))
        monkeypatch.setattr(devices, "cores", lambda: before + 1)
        monkeypatch.setenv(name, value)
        asim.use_all_cores()
        assert asked == ([("jax_num_cpu_devices", before + 1)] if name == "other" else [])
        assert jax.local_device_count() == before
