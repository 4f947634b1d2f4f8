"""`kaa cluster`: what a cluster is made of, whether it is well, and where its replicas are.

| module | what it owns |
|---|---|
| `cluster` | the command, and what a cluster says of itself |
| `nodes` | `kaa cluster brokers` and `controllers`: nodes by what they do |
| `quorum` | `kaa cluster quorum`: who votes on the metadata, and changes of that |
| `quorum_plan` | why a change of voters cannot be done, and whom it may leave alone |
| `reassign` | `kaa cluster reassign`, `drain` and `elect`: where replicas are |
| `reassign_plan` | where replicas should go: plans that move as little as they can |
| `reassign_throttle` | throttles of reassignments (KIP-73), as settings of brokers and topics |
| `replica_health` | what is wrong with the replicas of partitions, the worst first |
"""
