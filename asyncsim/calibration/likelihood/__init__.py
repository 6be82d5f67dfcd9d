"""A model of one's own, fitted by the exact likelihood of the durations that a log shows.

| module | what it does |
|---|---|
| `terms` | what a log shows of a model's laws |
| `constants` | parameters that it tells without error |
| `frame` | coordinates in which the likelihood is searched |
| `maximum` | its highest point within bounds, and the normal approximation there |
| `goodness` | do the laws fit |
| `fit` | the whole way |
"""
