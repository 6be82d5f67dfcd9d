"""Adversarial Variational Optimization, for any simulator, and of a model on a log.

| module | what it does |
|---|---|
| `avo` | both published versions |
| `critic` | their network |
| `blocks` | a trace as many nearly independent observations |
| `on_logs` | a model fitted to the blocks of a log |
"""
