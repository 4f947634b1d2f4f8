"""The group coordinator: groups of the classic and of the consumer protocol, and committed offsets.

`machine` is the frame. A classic group (`classic...`) assigns itself: its leader decides, and the
coordinator passes on. A consumer group (`consumer...`, KIP-848) is assigned here: `consumer` has
its one request, `consumer_update` the steps of it, `consumer_target` and `assignors` who is to have
what, `consumer_reconcile` how members get there, `consumer_regex` subscriptions by pattern, and
`consumer_classic` and `consumer_migration` members and groups on their way between the protocols.
"""
