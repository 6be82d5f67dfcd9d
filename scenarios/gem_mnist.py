"""The paper's MNIST experiment at full size: GEM trains the convolutional network with 20 workers.

Every worker contributes one epoch of its own shuffle of the 60 000 images, 937 mini-batches of 64, with
step size 0.05 and momentum 0.9. The final training losses in figure 1d are .074, .054, .041 and .035 for 5,
10, 20 and 30 workers.

The images are read from the folder named by ASYNCSIM_DATA, or downloaded once. Ctrl-C loses nothing.

    asyncsim run scenarios/gem_mnist.py
    asyncsim run scenarios/gem_mnist.py --workers 5 --out runs/gem_mnist_5
    asyncsim run scenarios/gem_mnist.py --workers 30 --rule downpour --out runs/downpour_mnist_30
"""

import asyncsim as asim

scenario = asim.Scenario(
    cluster=asim.Cluster(workers=20, compute=asim.delays.Gamma(mean=1.0, cv=0.3)),
    rule=asim.rules.GEM(learning_rate=0.05, momentum=0.9),
    workload=asim.workloads.ConvNet(asim.datasets.MNIST(), batch_size=64),
    commits_per_worker=937,
)

if __name__ == "__main__":
    asim.main(scenario)
