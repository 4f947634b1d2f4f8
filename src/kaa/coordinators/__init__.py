"""Coordinators: state that brokers keep for clients, in partitions of internal topics.

One runtime serves them all. A coordinator is a pure machine (`machine.Machine`); for each partition
of its topic that this broker leads there is one shard (`shard.Shard`), which replays the partition
into a machine, runs commands on it, appends the records they return and answers when those are
committed. `timeline` is the memory that can go back to what is committed, `timers` are deadlines as
data, `records` the bytes of the topic, and `runtime` finds the shard of a key.

| module | what it owns |
|---|---|
| `group` | the group coordinator: groups of every kind, and committed offsets |
| `java_hash` | the hash of strings in Java, by which Kafka places groups and orders its tables |
| `loading` | the replay of a partition into a machine |
| `promise` | the response to a command that is not committed yet |
| `share` | the share coordinator (KIP-932) |
| `transaction` | the transaction coordinator: who may write under a transactional id |
| `machine` | what a coordinator is to the runtime: a machine without IO |
| `records` | the bytes of coordinator records |
| `regex` | regular expressions of clients, bounded so that compiling one is quick |
| `runtime` | the shards of one coordinator on this broker, as leadership comes and goes |
| `shard` | one partition of a coordinator: the driver of its machine |
| `timeline` | memory that knows what it was at the last committed offset |
| `timers` | deadlines as data |
"""
