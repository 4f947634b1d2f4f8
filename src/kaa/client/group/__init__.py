"""Membership of a consumer in a group: who reads which partition.

| module | what it owns |
|---|---|
| `events` | what happens to a member, and what it wants done |
| `assignors` | range and round robin, and the table of all |
| `sticky` | sticky and cooperative-sticky |
| `member` | what both machines have in common |
| `classic_machine` | JoinGroup, SyncGroup, Heartbeat: the leader assigns |
| `consumer_machine` | KIP-848: the broker assigns, members reconcile |
| `driver` | the task that sends what a machine wants sent |
| `offsets` | committed offsets, at the coordinator |
| `consumer_protocol` | what members of a classic group tell each other |
| `membership` | rebalances, listeners and commits, as the consumer uses them |
| `classic_requests` | the requests of a classic member |

The machines have no clock and do no IO: `handle(event, now_ms)` gives effects, and
`deadline_ms` says when the next `Tick` is due. What concerns the application (`Revoke`,
`Assign`, `Fail`) happens inside its `poll`, as in Java; the rest in the background.

"""
