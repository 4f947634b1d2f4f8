"""Share-partition leaders (KIP-932): who of a share group has which records in hand.

`machine` is the pure state of one share partition, with `acquisition` for what fetches get,
`in_flight` and `window` for the records in hand, and `aborted` for what nobody is to see.

| module | what it owns |
|---|---|
| `fetch` | one fetch of a member of a share group: reads what can be handed out, and hands it out |
| `led` | one share partition at its leader, with what its machine needs: state loaded |
| `manager` | the share partitions that this broker leads |
| `persister` | share state over the brokers |
| `sessions` | share sessions: which partitions each member of a share group fetches |
| `settings` | the settings of share groups that share-partition leaders work with |
| `starting` | where a share group begins in a partition that it has not read |
| `offsets` | offsets of share groups: described with their lag, altered, deleted |
| `aborted` | which of the batches that were read nobody is to see |
| `acquisition` | what a fetch of a share group's member gets |
| `in_flight` | records that a share group has in hand |
| `machine` | one share partition at its leader |
| `window` | the batches of a share partition in the order of their offsets |
"""
