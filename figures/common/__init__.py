"""What the figures share: the scales, averages over a run, curves, the paper's own numbers, a quadratic."""
