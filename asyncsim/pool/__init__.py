"""One queue for many tasks, over processes of this machine or any executor. Importing it does not import JAX.

Neighbours use all four modules: `_queue` (a `Job` with its `Outcome`, the `Queue` that computes its tasks, `Patience`
for other processes), `_slots` (`slots`, room for tasks in processes of this machine or in an executor), `_parcels`
(`Packer`, `unpack` and `dumps`, which carry objects to other processes) and `_imports` (`require_not_importing`).
"""
