"""Consumers that share the records of partitions (KIP-932).

| module | what it owns |
|---|---|
| `session` | what a member tells one broker: partitions, and what became of records; pure |
| `fetched` | from the bytes of an answer to records, and to offsets that have none |
| `member` | membership in the share group, kept by heartbeats |
| `consumer` | `ShareConsumer` |
"""
