"""Consumer groups (KIP-848): the coordinator assigns, and members follow in one request.

`groups` has that request, `update` its steps, `target` who is to have what, `work` long
computations in slices, `reconcile` how members get there, and `regex` subscriptions by pattern.
`group` and `member` are the state, `records` what is stored of it, `timers` the deadlines, `commit`
the offsets of members. `protocol`, `classic_members` and
`migration` are for members and groups on their way between the protocols.

| module | what it owns |
|---|---|
| `classic_members` | members of a consumer group that speak the classic protocol |
| `commit` | commits of members of a consumer group within a transaction |
| `group` | a consumer group (KIP-848): the coordinator decides who reads what, and members follow |
| `groups` | the request of consumer groups |
| `member` | a member of a consumer group (KIP-848) |
| `migration` | groups that change their protocol while they live |
| `protocol` | the consumer protocol inside the classic one |
| `reconcile` | how a member gets from what it has to what it is to have |
| `records` | records of consumer groups: those of every modern group, and two of their own |
| `regex` | subscriptions by regular expression |
| `target` | the target assignment of a consumer group |
| `timers` | deadlines of members of consumer groups, besides those of every modern group |
| `update` | what a request of a member does to its consumer group, step by step, in records |
| `work` | work of consumer groups that takes too long to be done in a request |
"""
