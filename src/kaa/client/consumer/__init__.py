"""The consumer.

| module | what it owns |
|---|---|
| `assigned_partition` | how far a partition is read, and where it is fetched |
| `requests` | fetch requests |
| `fetched` | records out of fetch answers, aborted transactions left out |
| `offsets` | offsets by time |
| `fetcher` | positions, and the tasks that fetch |
| `consumer` | the class around them and `kaa.client.group` |
| `records` | the record that a consumer gives |
"""
