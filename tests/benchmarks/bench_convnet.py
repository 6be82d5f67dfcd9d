"""The paper's network: gradients per second next to PyTorch's, and the tax of replaying them."""

import jax
import numpy as np
import pytest

import asyncsim as asim
from tests.benchmarks.loops import bare_loop, gamma_trace

GRADIENTS = 320
BATCH = 64


@pytest.fixture(scope="module")
def workload():
    """The network on random images: their values do not change the work."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(6000, 28, 28)).astype(np.float32)
    labels = rng.integers(0, 10, 6000).astype(np.int32)
    data = asim.datasets.Dataset("noise", images, labels, images[:100], labels[:100], 10)
    return asim.workloads.ConvNet(data, batch_size=BATCH)


@pytest.mark.parametrize("lanes", [1, None], ids=["one device", "all devices"])
@pytest.mark.parametrize("rule", [asim.rules.GEM(0.001), asim.rules.Downpour(0.001)], ids=lambda rule: rule.name)
def test_convnet_tax(rule, lanes, workload, versus, report, scaled):
    gradients = scaled(GRADIENTS)
    trace = gamma_trace(30, 0.1, gradients)
    tax = versus(lambda: asim.replay(trace, rule, workload, lanes=lanes), bare_loop(workload, gradients), rounds=5)
    devices = 1 if lanes else jax.local_device_count()
    report(f"tax, convnet, n = 30, cv = 0.1, {rule.name}, {devices} devices", tax, "×", at_most=1.15)


@pytest.mark.parametrize("how", ["bare loop, one device", "replay of DOWNPOUR, all devices"])
def test_convnet_against_pytorch(how, workload, versus, report):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")
    trace, rule = gamma_trace(30, 0.1, GRADIENTS), asim.rules.Downpour(0.001)
    ours = bare_loop(workload, GRADIENTS) if "bare" in how else lambda: asim.replay(trace, rule, workload)
    ratio = versus(ours, torch_loop(torch), rounds=5)
    report(f"convnet gradients/s over PyTorch's, {how}", 1 / ratio, "×", at_least=1.5)


def torch_loop(torch):
    """Forward and backward of the same network, batch and dropout, as the authors' script does it."""
    from torch import nn
    from torch.nn import functional

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2, self.drop = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5), nn.Dropout2d()
            self.linear1, self.linear2, self.linear3 = nn.Linear(320, 300), nn.Linear(300, 200), nn.Linear(200, 10)

        def forward(self, x):
            x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
            x = functional.relu(functional.max_pool2d(self.drop(self.conv2(x)), 2)).view(-1, 320)
            x = functional.relu(self.linear2(functional.relu(self.linear1(x))))
            return functional.log_softmax(self.linear3(x), 1)

    network = Network()
    images, labels = torch.randn(BATCH, 1, 28, 28), torch.randint(0, 10, (BATCH,))

    def gradients():
        for _ in range(GRADIENTS):
            network.zero_grad()
            functional.nll_loss(network(images), labels).backward()

    return gradients
