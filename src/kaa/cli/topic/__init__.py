"""`kaa topic`: topics of any Kafka cluster.

| module | what it owns |
|---|---|
| `topic` | the command: lists, creates, describes and changes topics |
| `apply` | `kaa topic apply`: topics as a file says, with a plan first |
| `delete` | `kaa topic delete` and `trim`: what destroys records |
| `names` | which topics are meant: patterns of a shell, or regular expressions |
| `tier` | `kaa topic tier`: how much of topics is in remote storage |
"""
