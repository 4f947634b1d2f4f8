"""Streams groups (KIP-1071): applications of Kafka Streams whose tasks the broker assigns.

`groups` has the heartbeat and how members go, `update` the steps of one heartbeat, `group` the
state, `records` what is stored of it.

| module | what it owns |
|---|---|
| `validate` | heartbeats that are refused whatever the group is |
| `member` | members, tasks, and the states of members |
| `topology` | what an application reads and keeps, and the topics that it needs for that |
| `reconcile` | how a member comes from the tasks it has to those it is to have |
| `endpoints` | which partitions are found at which address of an application |
| `commit` | whether a member may commit, fetch and delete offsets |
| `group` | a streams group |
| `groups` | what streams groups do: members join, stay and leave |
| `records` | records of streams groups in the offsets topic |
| `update` | one heartbeat of a member of a streams group, step by step, each in records |
"""
