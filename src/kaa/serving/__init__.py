"""What handlers share: delayed answers, fetch sessions, and the view of the node they serve.

| module | what it owns |
|---|---|
| `appending` | appends of clients to the partitions that this broker leads |
| `applied` | partitions whose turn to be made has not come yet, made for those who name them |
| `config_changes` | what a broker looks at before the controller is asked to change settings |
| `disk_space` | how large the disk of a log directory is |
| `fetch_sessions` | incremental fetch sessions (KIP-227) |
| `fetching` | reads from partitions that this broker leads or follows, and waits for more |
| `leader_hints` | where to go instead: the leader, for clients that asked the wrong broker |
| `logger_levels` | the levels of this process's loggers |
| `metadata_answers` | answers to Metadata, kept encoded while the metadata stays the same |
| `metadata_view` | the cluster as the clients of one listener see it |
| `node_ids` | names of resources that are ids of nodes |
| `offset_search` | the first record at or after a time, without holding the loop |
| `producer_ids` | ids for producers, handed out from the blocks that the controller gives |
| `remote_logs` | tiered storage as the rest of a broker sees it: who leads what |
| `remote_parts` | the partitions of a fetch whose records are in remote storage |
| `services` | what handlers work with: the parts of a node, put together once by the broker |
| `session_watch` | which partitions of a follower's session have something new |
| `share` | share groups: the share partitions that this broker leads, and their state |
| `shared_flush` | group commit: one flush at a time for all that was appended meanwhile |
| `streams_topics` | internal topics of streams groups, made when a heartbeat misses them |
| `topic_creation` | topics that nobody created, made because a client asked for them |
| `transactions` | what brokers do for transactions beside the coordinator itself |
| `view` | what every part of a node may know of it: who it is, what is in force |
| `delayed` | answers that wait for partitions: until it is enough, or until their time is up |
"""
