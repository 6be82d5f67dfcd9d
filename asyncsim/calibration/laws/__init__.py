"""A log taken apart into stages, and a law chosen and fitted for each.

| module | what it does |
|---|---|
| `stages` | computing, messages and service, as a log shows them |
| `oddities` | pauses, doubled lines, coarse clocks, workers who left, barriers |
| `estimate` | a fitted law and the normal approximation of its likelihood |
| `choose` | one law for all workers, two classes of them, or one each; Akaike's criterion, likelihood ratios |
| `average` | what the choice of a family leaves open: Akaike weights, intervals over all families |
| `shape` | does the law fit |
"""
