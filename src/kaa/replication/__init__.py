"""Partitions as this broker holds them: leadership, in-sync replicas, high watermark.

| module | what it owns |
|---|---|
| `partition` | one partition, where leader and follower meet: its log, and who waits for it |
| `leader` | what a leader knows of its replicas: high watermark, in-sync set (pure) |
| `isr_changes` | in-sync sets on their way to the controller |
| `follower` | how replicas copy from their leaders |
| `manager` | the partitions of this broker, made and ended as the metadata says |
| `directory_assignments` | telling the controller which directories replicas are in |
| `found_copies` | copies of moves that a start finds, read once before they are gone on with |
| `log_placement` | the log that a replica gets: found, taken over, or new where one may be |
| `moves` | moves of replicas between the log directories of this broker (KIP-113, KIP-858) |
| `read_replica` | which replica a consumer should read from (KIP-392) |
| `start_report` | what a broker says of its logs when it has started |
| `throttle` | throttles of replication (KIP-73): replicas that catch up leave room for clients |
| `topic_rules` | what the settings of a topic mean for its partitions |
"""
