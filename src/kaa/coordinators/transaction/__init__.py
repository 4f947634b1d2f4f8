"""The transaction coordinator: who may write under a transactional id, and how transactions end.

| module | what it owns |
|---|---|
| `ending` | who may end a transaction when |
| `machine` | the transaction coordinator of one partition of `__transaction_state`, as a machine |
| `markers` | markers: what tells each partition of a transaction how it ended |
| `queries` | which transactions are asked for, and found in committed state |
| `records` | records of `__transaction_state`: the whole state of a transactional id in each |
| `settings` | the settings of the broker that the transaction coordinator works with |
| `state` | the state of a transactional id, and the changes that it can go through |
| `coordinator` | the transaction coordinator of a broker, as handlers call it |
"""
