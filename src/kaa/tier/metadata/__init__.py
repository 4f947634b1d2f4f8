"""The metadata of remote segments: which exist, in what state, and which one holds an offset.

Modules, from the bottom up:

- `model`: segments, their states and the legal transitions between states
- `records`: the records that carry them, and the partition of the metadata topic they go to
- `cache`: what is known of one partition, by leader epoch and offset
- `machine`: what is known of all partitions of a node, and when it may be relied on
- `snapshot`: that knowledge as a file
- `topic`: the topic that carries it, read and written through the client

| module | what it owns |
|---|---|
| `listing` | the remote segments of some partitions, read once by any client |
| `port` | what the rest of the tier asks of the metadata of remote segments |
| `cache` | what is known of the remote segments of one partition |
| `machine` | what this node knows of the metadata topic |
| `model` | remote segments, the states they go through, and the deletion of whole partitions |
| `records` | remote log metadata as records of the topic `__remote_log_metadata` |
| `snapshot` | a snapshot of what was read of the metadata topic |
| `topic` | the metadata topic through Kaa's own client: made if need be, read, written |
"""
