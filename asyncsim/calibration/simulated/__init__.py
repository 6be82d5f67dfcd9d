"""A model of one's own, fitted by simulation.

| module | what it does |
|---|---|
| `summaries` | a trace as a row of statistics |
| `simulations` | clusters of the prior, simulated in processes and kept |
| `estimator` | the neural posterior, learned from them |
| `npe` | the whole way |
| `posterior` | what it gives |
"""
