"""Coordinators: state that brokers keep for clients, in partitions of internal topics.

One runtime serves them all. A coordinator is a pure machine (`machine.Machine`); for each partition
of its topic that this broker leads there is one shard (`shard.Shard`), which replays the partition
into a machine, runs commands on it, appends the records they return and answers when those are
committed. `timeline` is the memory that can go back to what is committed, `timers` are deadlines as
data, `records` the bytes of the topic, and `runtime` finds the shard of a key.
"""
