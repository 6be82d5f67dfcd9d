"""A compressed rule in a scenario: chosen by name, described, made again, and as many bytes as it says."""

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.components._families import built_in_classes
from asyncsim.compressors import Identity, LowRank, Natural, RandK, TopK
from asyncsim.rules import compressed
from asyncsim.study._run import headline
from tests.problems import refusals

BYTES_PER_SECOND = 100.0
SIZE = 100  # parameters, 400 bytes


def scenario(rule, network=None, **changes):
    network = asim.Network(bandwidth=BYTES_PER_SECOND) if network is None else network
    cluster = asim.Cluster(1, asim.delays.Constant(1.0), network=network)
    return asim.Scenario(cluster, rule, asim.workloads.Quadratic([1.0] * SIZE), **{"commits": 10, **changes})


PLAIN = asim.rules.Downpour(0.1)
TOP = compressed(PLAIN, TopK(0.1))


class TestBytes:
    """What a commit carries."""

    @pytest.mark.parametrize("compressor", [Identity(), TopK(0.1), RandK(0.05), Natural()], ids=repr)
    def test_a_commit_takes_as_long_as_its_bytes(self, compressor):
        """One worker: down in full, a second of computing, up as the compressor says."""
        times = np.diff(scenario(compressed(PLAIN, compressor)).simulate().commit_time)
        up = compressor.bytes(jax.ShapeDtypeStruct((SIZE,), "float32"))
        np.testing.assert_allclose(times, (4 * SIZE + up) / BYTES_PER_SECOND + 1, rtol=1e-9)

    def test_the_identity_has_the_schedule_of_no_compression(self):
        plain, same = scenario(PLAIN), scenario(compressed(PLAIN, Identity()))
        assert plain.schedule_digest == same.schedule_digest
        assert plain.digest != same.digest

    def test_a_given_message_is_compressed_in_proportion(self):
        network = asim.Network(bandwidth=1e6, message_bytes=4e6)  # a larger model than the one that is replayed
        assert scenario(TOP, network).scheduled.network.upload_seconds == pytest.approx(0.2 * 4.0)
        assert scenario(PLAIN, network).scheduled.network.upload_seconds == 4.0

    def test_without_a_limit_bytes_do_not_matter(self):
        fast = scenario(TOP, asim.Network())
        assert fast.schedule_digest == scenario(PLAIN, asim.Network()).schedule_digest

    def test_both_ways_of_saying_it_are_refused(self):
        network = asim.Network(bandwidth=BYTES_PER_SECOND, compression=0.5)
        assert scenario(PLAIN, network).scheduled.network.compression == 0.5
        with pytest.raises(ValueError, match="`compression` must be left out of the network with a compressed rule"):
            scenario(TOP, network)


class TestFields:
    """What `override` and the command line set."""

    def test_a_compressor_is_chosen_and_removed_by_name(self):
        assert scenario(PLAIN).override(compressor="top_k", fraction=0.1) == scenario(TOP)
        assert scenario(TOP).override(compressor="none") == scenario(PLAIN)
        assert scenario(TOP).override(error_feedback=False).rule == compressed(PLAIN, TopK(0.1), error_feedback=False)
        assert scenario(TOP).override(compressor="low_rank").rule == compressed(PLAIN, LowRank())

    def test_another_compressor_keeps_what_both_have_and_another_rule_its_compressor(self):
        assert scenario(TOP).override(compressor="rand_k").rule == compressed(PLAIN, RandK(0.1))
        assert scenario(TOP).override(rule="gem").rule == compressed(asim.rules.GEM(0.1), TopK(0.1))
        assert scenario(TOP).override(learning_rate=0.2).rule == compressed(asim.rules.Downpour(0.2), TopK(0.1))

    def test_a_number_or_a_fraction_of_them(self):
        """One replaces the other; a protocol has a k as well."""
        few = scenario(TOP).override(compressor_k=3)
        assert few.rule == compressed(PLAIN, TopK(k=3))
        assert few.override(fraction=0.1) == scenario(TOP)

    def test_every_compressor_can_be_written_out_and_read_again(self):
        given = {
            "top_k": {"fraction": 0.1},
            "rand_k": {"compressor_k": 7},
            "qsgd": {"levels": 3},
            "low_rank": {"rank": 2},
        }
        for name in built_in_classes("compressors"):
            made = scenario(PLAIN).override(compressor=name, error_feedback=False, **given.get(name, {}))
            fields = [field for field in made.fields() if field.group == "Compressor" and field.value is not None]
            texts = {field.name: field.parse(field.show()) for field in fields}
            assert scenario(PLAIN).override(**texts) == made

    def test_the_headline_says_so(self):
        assert "compressor top_k, fraction 0.1" in headline(scenario(TOP))[1]
        assert "compressor" not in headline(scenario(PLAIN))[1]


test_what_is_refused = refusals(
    ({"compressor": "topk"}, "`compressor` must be one of .* Did you mean 'top_k'"),
    ({"compressor": "top_k"}, "Exactly one of `fraction` and `k` must be given; got neither"),
    ({"compressor": "top_k", "fraction": 1.1}, "`fraction` must be at most 1"),
    ({"fraction": 0.1}, "`fraction` is not a field of compressor 'none', only of top_k, rand_k"),
    ({"rule": "fedasync", "compressor": "natural"}, "'fedasync' sends parameters"),
    call=lambda changes: scenario(PLAIN).override(**changes),
)
