"""How replicas copy from their leaders.

| module | what it owns |
|---|---|
| `machine` | the partitions that one fetcher follows, and what to do with each answer (pure) |
| `session` | what the leader knows of them, so that a fetch names only changes (pure) |
| `fetcher` | one fetcher at work: it asks a leader, and appends, cuts and restarts logs |
| `fetchers` | the fetchers of a broker, `num.replica.fetchers` for each leader |
| `link` | the way to a leader on another broker |
| `local` | a leader in the same process: the log that a future log in another directory copies |
"""
