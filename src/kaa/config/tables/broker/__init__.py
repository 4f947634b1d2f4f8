"""Settings of brokers, by area.

| module | settings |
|---|---|
| `groups` | classic, consumer and streams groups, and the offsets topic |
| `kaa` | what only Kaa has; the names start with `kaa.` |
| `log` | log directories, segments, retention, flushing, compaction, record limits |
| `network` | listeners, connections, sockets and request queues |
| `quorum` | node identity, roles, the controller quorum and the metadata log |
| `remote` | remote (tiered) storage |
| `replication` | replication between brokers, leadership, throttles |
| `security` | TLS, SASL and principals |
| `server` | the server as a whole, metrics, quotas, plug-ins |
| `share` | share groups and the share coordinator |
| `transactions` | transactions and delegation tokens |
"""
