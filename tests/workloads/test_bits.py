"""Policy gradients on bits: expectations of the eight estimators by enumeration, stability, and records."""

import itertools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.rules import View
from asyncsim.workloads import Bits
from tests.problems import refusals

ESTIMATORS: tuple[Any, ...] = ("none", "token", "sequence", "truncated", "masked", "ppo", "decoupled", "gspo")
H, K = 5, 3
RNG = np.random.default_rng(3)
NEW, OLD = RNG.normal(0.3, 0.7, (2, 1, H))  # θ of one context: of the gradient, and of the policy that drew the data
EXACT = 1e-12
DRAWS = 2000


def enumerated(theta):
    """All sequences, and their probabilities for θ of shape (1, H)."""
    p = 1 / (1 + jnp.exp(-theta[0]))
    every = np.array(list(itertools.product((0, 1), repeat=theta.shape[1])))
    return every, jnp.where(every == 1, p, 1 - p).prod(1)


def reward(theta, least=K):
    """J by enumeration."""
    every, shares = enumerated(theta)
    return jnp.sum(shares * (every.sum(1) >= least))


SLOPE_OF_REWARD = jax.jit(jax.grad(reward))


def slope(workload, new=NEW, old=OLD, batch=None):
    """The direction that the estimator ascends, (contexts, H)."""
    params, behaviour = {"theta": jnp.asarray(new)}, {"theta": jnp.asarray(old)}
    return -np.asarray(workload.gradient(params, batch, None, behaviour)[1]["theta"])


def bits(estimator: Any = "none", **arguments: Any) -> Bits:
    return Bits(**{"least": K, "bits": H, "estimator": estimator, **arguments})


def expected_over_groups(workload, new, old, size):
    """The mean gradient over all groups of so many sequences, each with its probability under the behaviour policy."""
    every, shares = map(np.asarray, enumerated(old))
    one = jax.jit(lambda uniform: workload.gradient({"theta": new}, (0, uniform), None, {"theta": old})[1]["theta"])
    groups = itertools.product(range(len(every)), repeat=size)
    # A uniform number of 0 makes a bit 1, and one of 1 makes it 0.
    return -sum(shares[list(group)].prod() * one(jnp.array(1.0 - every[list(group)])) for group in groups)


class TestExpectations:
    """The mean of a gradient over all sequences, each with its probability under the policy that drew it."""

    def test_the_uncorrected_estimator_has_the_gradient_at_the_old_parameters(self, x64):
        """With the mean of all sequences or J itself as baseline. Without a baseline the gradient is another one."""
        expected = SLOPE_OF_REWARD(OLD)
        for baseline in ("mean", "exact"):
            np.testing.assert_allclose(slope(bits(baseline=baseline)), expected, rtol=0, atol=EXACT)
        assert abs(slope(bits(baseline="none")) - expected).max() > 0.01

    def test_with_a_penalty_it_ascends_the_objective(self, x64):
        def objective(theta):
            p = jax.nn.sigmoid(theta)
            return reward(theta) - 0.1 * jnp.sum(p * jnp.log(2 * p) + (1 - p) * jnp.log(2 * (1 - p)))

        workload = bits(penalty=0.1)
        np.testing.assert_allclose(slope(workload), jax.jit(jax.grad(objective))(OLD), rtol=0, atol=EXACT)
        assert float(workload.evaluate({"theta": OLD})["objective"]) == pytest.approx(float(objective(OLD)), abs=EXACT)

    @pytest.mark.parametrize("baseline", ["mean", "exact", "none"])
    def test_sequence_weights_have_the_gradient_at_the_newest_parameters(self, baseline, x64):
        """With any baseline, because weighted scores have mean 0."""
        found = slope(bits("sequence", baseline=baseline))
        np.testing.assert_allclose(found, SLOPE_OF_REWARD(NEW), rtol=0, atol=EXACT)

    def test_token_weights_correct_the_own_bit_only(self, x64):
        """The gradient is p(1 - p) times the probability under the old policy that the others have k - 1 ones."""
        p, expected = 1 / (1 + np.exp(-NEW[0])), []
        for t in range(H):
            every, shares = enumerated(np.delete(OLD, t, axis=1))
            expected.append(p[t] * (1 - p[t]) * shares[every.sum(1) == K - 1].sum())
        np.testing.assert_allclose(slope(bits("token"))[0], expected, rtol=0, atol=EXACT)

    def test_decoupled_ppo_with_one_step_a_batch_has_token_weights(self, x64):
        np.testing.assert_allclose(slope(bits("decoupled")), slope(bits("token")), rtol=0, atol=EXACT)

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    def test_on_policy_all_agree(self, estimator, x64):
        """The gradient of gspo has the factor 1/H."""
        factor = 1 / H if estimator == "gspo" else 1
        found = slope(bits(estimator), new=OLD)
        np.testing.assert_allclose(found, factor * SLOPE_OF_REWARD(OLD), rtol=0, atol=EXACT)

    @pytest.mark.parametrize(("estimator", "size"), [("none", 1), ("none", 3), ("sequence", 2), ("gspo", 2)])
    def test_a_groups_own_mean_takes_its_share(self, estimator, size, x64):
        """The factor is 1 - 1/S, for the uncorrected estimator off policy, too."""
        new, old = NEW[:, :2], OLD[:, :2]
        workload = Bits(least=1, bits=2, samples=size, estimator=estimator)
        point = new if estimator == "none" else old
        factor = (1 - 1 / size) / (2 if estimator == "gspo" else 1)
        expected = factor * SLOPE_OF_REWARD(old, 1)
        np.testing.assert_allclose(expected_over_groups(workload, point, old, size), expected, rtol=0, atol=EXACT)

    def test_groups_with_the_exact_baseline_are_unbiased(self, x64):
        new, old = NEW[:, :2], OLD[:, :2]
        for estimator, at in (("none", old), ("sequence", new)):
            workload = bits(estimator, least=1, bits=2, samples=2, baseline="exact")
            found = expected_over_groups(workload, new, old, 2)
            np.testing.assert_allclose(found, SLOPE_OF_REWARD(at, 1), rtol=0, atol=EXACT)

    def test_a_cap_that_binds_nowhere_gives_sequence_weights(self, x64):
        for estimator in ("truncated", "masked"):
            np.testing.assert_allclose(slope(bits(estimator, cap=1e6)), slope(bits("sequence")), rtol=0, atol=EXACT)
            assert abs(slope(bits(estimator, cap=1.1)) - slope(bits("sequence"))).max() > 1e-3

    @pytest.mark.parametrize("estimator", ["ppo", "gspo"])
    def test_a_clip_that_binds_nowhere_gives_the_ratios_gradient(self, estimator, x64):
        """And one that binds stops a rewarded bit that has become more likely: only less likely ones move θ."""
        if estimator == "ppo":
            np.testing.assert_allclose(slope(bits("ppo", clip=1e6)), slope(bits("token")), rtol=0, atol=EXACT)
        assert abs(slope(bits(estimator, clip=0.05)) - slope(bits(estimator, clip=1e6))).max() > 1e-3
        assert (slope(bits(estimator, clip=0.0, least=0, baseline="none"), new=OLD + 1.0) <= 0).all()


class TestExactQuantities:
    @pytest.mark.parametrize("least", [0, 1, 3, H])
    def test_the_reward_is_that_by_enumeration(self, least, x64):
        found = bits(least=least).evaluate({"theta": NEW})
        assert float(found["reward"]) == pytest.approx(float(reward(NEW, least)), abs=EXACT)
        assert float(found["test_loss"]) == pytest.approx(1 - float(reward(NEW, least)), abs=EXACT)

    def test_each_context_has_its_own_reward(self, x64):
        workload = Bits(least=[1, 4], bits=H)
        theta = np.concatenate([NEW, OLD])
        found = workload.evaluate({"theta": theta})
        assert float(found["reward_0"]) == pytest.approx(float(reward(NEW, 1)), abs=EXACT)
        assert float(found["reward_1"]) == pytest.approx(float(reward(OLD, 4)), abs=EXACT)
        both = (float(found["reward_0"]) + float(found["reward_1"])) / 2
        assert float(found["reward"]) == pytest.approx(both, abs=EXACT)

    def test_effective_sample_size_and_clipped_shares_are_those_of_all_sequences(self, x64):
        """Their definitions, by enumeration."""
        every, shares = map(np.asarray, enumerated(OLD))
        p, q = (1 / (1 + np.exp(-theta[0])) for theta in (NEW, OLD))
        ratio = np.where(every == 1, p / q, (1 - p) / (1 - q))
        weight = ratio.prod(1)
        size = 1 / (shares * weight**2).sum()
        expected = {
            "ppo": (shares @ (abs(ratio - 1) > 0.2)).mean(),
            "gspo": shares @ (abs(weight ** (1 / H) - 1) > 0.2),
            "truncated": shares @ (weight > 1.5),
            "masked": shares @ ((weight > 1.5) | (weight < 1 / 1.5)),
            "sequence": 0.0,
        }
        assert len({round(share, 6) for share in expected.values()}) == 5
        commit = SimpleNamespace(view=View(read={"theta": OLD}, pulled={"theta": NEW}, staleness=1))
        for estimator, share in expected.items():
            workload = bits(estimator, cap=1.5)
            assert float(workload.effective_sample_size(commit)) == pytest.approx(size, rel=1e-12)
            assert float(workload.clipped_share(commit)) == pytest.approx(share, rel=1e-12, abs=1e-15)

    def test_they_can_be_recorded(self, x64):
        """On policy all weights are 1."""
        record = {"reward": 2, "effective_sample_size": 1, "clipped_share": 1}
        run = asim.replay(asim.Trace.from_commits([0] * 6), asim.rules.Downpour(1.0), bits("ppo"), record=record)
        assert run.recorded_at["reward"].tolist() == [1, 3, 5]
        assert (np.diff(run.records["reward"]) > 0).all()
        assert float(run.records["reward"][-1]) == pytest.approx(run.evaluate()["reward"])
        assert run.records["effective_sample_size"] == pytest.approx(1)
        assert (run.records["clipped_share"] == 0).all()


@pytest.mark.parametrize("staleness", [0, 2, 8])
def test_stability_ends_where_that_of_asynchronous_sgd_does(staleness, x64):
    """The step size has the limit 2·sin(π/(2(2s + 1)))/λ, with the staleness s and the largest curvature λ.

    At 0.97 of it the distance to the optimum shrinks, at 1.03 of it the distance grows.
    """
    curvature, optimum = 0.02618567221144011, 2.0386480185337863  # as `Bits.optimum` finds them
    limit = asim.theory.constant_delay_limit(staleness) / curvature
    workload = Bits(least=2, bits=3, penalty=0.1, start=optimum + 1e-4)
    trace = asim.Trace.from_commits(list(range(staleness + 1)) * (1500 // (staleness + 1)))
    rule = asim.rules.Downpour(np.array([0.97, 1.03]) * limit)
    stable, unstable = abs(asim.replay(trace, rule, workload, seed=(0, 0)).central["theta"] - optimum).max(axis=(1, 2))
    assert stable < 2e-5
    assert unstable > 2e-3


def test_the_sampled_gradient_has_the_exact_one_as_its_mean():
    """Over many commits at one place: a rule without a step, from a start where nothing is symmetric."""
    workload = Bits(least=K, bits=H, samples=16, estimator="token", baseline="exact", start=OLD)
    record = {"slope": gradient_of_theta}
    run = asim.replay(asim.Trace.from_commits([0] * DRAWS), asim.rules.Downpour(0.0), workload, record=record)
    found = -run.records["slope"].reshape(DRAWS, H)
    error = found.std(0) / np.sqrt(DRAWS)
    exact = slope(bits("token"), new=OLD)[0]
    assert (abs(found.mean(0) - exact) < 4.5 * error).all()
    missed = 1 - float(reward(jnp.asarray(OLD)))
    assert abs(run.loss.mean() - missed) < 4.5 * run.loss.std() / np.sqrt(DRAWS)


def gradient_of_theta(commit):
    return commit.gradient["theta"]


test_bad_arguments_are_named = refusals(
    ({"bits": 17}, "`bits` must be at most 16"),
    ({"least": 9}, "`least` must be from 0 to 8"),
    ({"least": [1, 2], "lengths": [1.0]}, "`lengths` must be positive, one per context"),
    ({"start": [1.0, 2.0]}, r"`start` must be finite θ of all bits.*\(1, 8\)"),
    ({"cap": 0.5}, "`cap` must be at least 1"),
    ({"samples": 0}, "`samples`"),
    ({"estimator": "gsop"}, "Did you mean 'gspo'"),
    ({"clip": -1.0}, "`clip`"),
    call=lambda arguments: Bits(**arguments),
)


class TestPrompts:
    """Contexts whose samples take longer, in the schedule and in the replay."""

    @staticmethod
    def engines(prompt: Any, **knobs: Any) -> asim.Rollouts:
        law = asim.delays.Constant(1.0)
        return asim.Rollouts(slots=8, group=2, batch=2, generate=law, train=law, prompt=prompt, **knobs)

    @pytest.mark.parametrize("knobs", [{"lead": 1}, {"max_age": 2, "stale": "abort"}])
    def test_the_schedule_and_the_replay_have_the_same_contexts(self, knobs, x64):
        """The time of every trained group is that of the context whose θ its commit moves, also after discards."""
        workload = bits(least=[2, 3, 4], samples=4, lengths=[1.0, 2.0, 5.0], counts="jobs")
        trace = asim.simulate(self.engines(workload.prompts(seed=7), **knobs), commits=120)
        context = workload.prompts(seed=7).contexts(trace.worker, trace.started_before)
        assert {*context.tolist()} >= {0, 1}
        lengths = np.array([1.0, 2.0, 5.0])[context]
        # The two samples of a group may start one after the other.
        assert (trace.finish_time - trace.start_time >= lengths - 1e-9).all()
        run = asim.replay(trace, asim.rules.Downpour(0.1), workload, seed=7, record={"slope": gradient_of_theta})
        moved = abs(run.records["slope"]).max(axis=2) > 0
        assert (moved.sum(axis=1) <= 1).all()
        rows = np.flatnonzero(moved.any(axis=1))
        assert len(rows) > 50
        assert (moved[rows].argmax(axis=1) == context[rows]).all()

    def test_an_age_bound_prefers_short_sequences(self):
        workload = bits(least=[2, 3], lengths=[1.0, 4.0], counts="jobs")
        trace = asim.simulate(self.engines(workload.prompts(), max_age=2), commits=2000)
        assert workload.prompts().contexts(trace.worker, trace.started_before).mean() < 0.43

    def test_a_workload_that_counts_commits_has_none(self):
        with pytest.raises(ValueError, match="`counts` must be 'jobs'"):
            bits(least=[2, 3]).prompts()

    def test_factors_that_are_none_are_refused(self):
        with pytest.raises(ValueError, match="`prompt` must return one positive, finite factor"):
            asim.simulate(self.engines(lambda ticket, jobs: 0.0 * jobs), commits=2)
        with pytest.raises(ValueError, match="`prompt` must be a function"):
            self.engines(3.0)
