"""Tiered ranges read straight from the object store, without a broker.

| module | what it owns |
|---|---|
| `plan` | which segment each offset is read from, and how tasks are cut |
| `stores` | where the store is, said by reference, and one open store per process |
| `metadata` | the remote segments of partitions, read on from where the process has got to |
| `chain` | the leader epochs of a partition, as its leader knows them |
| `aborted` | the aborted transactions of a range, and where undecided ones begin |
| `planning` | a query's ranges as tasks: what the driver does |
| `audit` | every object of remote segments read and judged: `kaa tier audit` |
| `remote_segments` | the batches of a task, read from remote segments |

This package alone may use `kaa.tier`, and of it only the store, the metadata and the indexes.
"""
