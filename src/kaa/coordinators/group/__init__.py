"""The group coordinator: groups of every kind, and committed offsets.

`coordinator` is what handlers call, `machine` the frame around the rooms, and `kinds` the table of
records. Each kind of group has a room: `classic`, where the leader of the group assigns, and
`consumer` (KIP-848), where the coordinator does. `offsets` has what was committed, `assignors` the
assignors of the coordinator. `topics` is what groups know of topics, `settings` what can be
configured, `outcome` a result that is being put together, `modern` what consumer, share and streams
groups have in common; `java_order` and `xxh3` are Java's order of maps and the hash of topics,
which show in records.

| module | what it owns |
|---|---|
| `share` | share groups (KIP-932): members work off the same partitions together |
| `streams` | streams groups (KIP-1071): tasks of Kafka Streams, assigned by the broker |
| `assignors` | assignors of the coordinator |
| `classic` | classic groups: members elect a leader, which assigns; the coordinator passes on |
| `consumer` | consumer groups (KIP-848) |
| `coordinator` | the group coordinator of a broker, as handlers call it |
| `java_order` | the order in which Java's hash tables give their keys |
| `kinds` | the kinds of groups that share the offsets topic, and their records |
| `machine` | the group coordinator of one partition of the offsets topic, as a machine |
| `modern` | what consumer, share and streams groups have in common |
| `offsets` | offsets of groups |
| `outcome` | what a command of the group coordinator decides, gathered while it decides |
| `settings` | the settings of broker and group that the group coordinator works with |
| `topics` | topics as consumer groups look at them |
| `validate` | requests of members that make no sense, or are too large |
| `xxh3` | XXH3, the hash with 64 bits, seed 0 and its own secret, as Kafka uses it on topics |
"""
