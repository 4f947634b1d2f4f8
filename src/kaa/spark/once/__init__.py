"""The exactly-once sink: a machine that decides, a driver that acts, and the part of the tasks.

| module | what it owns |
|---|---|
| `decisions` | the topic of decisions: one compacted topic, a key per query, JSON as values |
| `transactions` | requests about a transaction by anyone who knows its name |
| `driver` | performs what the machine of the exactly-once sink asks for |
| `machine` | how a batch of rows becomes visible exactly once, whatever dies |
| `tasks` | the part of the exactly-once sink that runs in tasks: one open transaction each |
"""
