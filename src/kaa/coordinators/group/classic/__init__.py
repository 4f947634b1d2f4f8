"""Classic groups: members elect a leader, which assigns; the coordinator passes on.

`groups` has the requests, `join` how members come, `rebalance` the two phases and their deadlines,
`group` the state of one group, `records` what is stored of it.

| module | what it owns |
|---|---|
| `group` | a group of the classic protocol: its members, its generation, and the state it is in |
| `groups` | the requests of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup |
| `join` | JoinGroup: how clients become members of a classic group, and take part in rebalances |
| `rebalance` | how a classic group gets from one generation to the next |
| `records` | records of classic groups |
"""
