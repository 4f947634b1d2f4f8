"""The share coordinator (KIP-932): which records of a partition a share group is done with.

`coordinator` is what handlers and share-partition leaders call, `machine` one partition of
`__share_group_state`, `state` what is remembered of a share partition, `batches` how ranges of
offsets are combined, `settings` what can be configured.

| module | what it owns |
|---|---|
| `persister` | where share state is kept |
| `batches` | ranges of offsets with their delivery state |
| `coordinator` | the share coordinator of a broker |
| `machine` | the share coordinator of one partition of the state topic, as a machine |
| `settings` | the settings of the broker that the share coordinator works with |
| `state` | what the share coordinator remembers of one share partition, and the records of it |
"""
