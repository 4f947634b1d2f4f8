"""Offsets of groups: `committed` is the state, `commands` commits and deletions, `fetch` questions,
`expiry` how they end, and `transactional` commits that wait for the end of a transaction.

| module | what it owns |
|---|---|
| `commands` | commands on the offsets of a group: commit them and delete them |
| `committed` | committed offsets: where groups are in the partitions they read |
| `expiry` | offsets whose time is up |
| `fetch` | OffsetFetch: what a group committed, for some partitions or for all |
| `transactional` | offsets that a transaction commits |
"""
