"""Share groups (KIP-932): members work off the same partitions together.

`groups` has the heartbeat and how members go, `group` the state, `records` what is stored of it.
Which records members are done with is the share coordinator's
(`kaa.coordinators.share`); this room says which partitions have such state.

| module | what it owns |
|---|---|
| `offsets` | offsets of share groups as administrators change them |
| `group` | a share group: members, what each is to read, and which partitions have share state |
| `groups` | what share groups do: members join, stay, leave, and partitions get share state |
| `records` | records of share groups in the offsets topic |
| `states` | has the share coordinators begin and delete the state of share partitions |
"""
