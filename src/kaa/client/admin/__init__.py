"""The admin client.

| module | what it owns |
|---|---|
| `base` | what its parts share: the cluster, time limits, the form of answers |
| `configs` | settings of topics, brokers and groups |
| `groups` | who is in a group, and how far it is |
| `share` | share groups, and where they are |
| `streams` | streams groups, their topology and tasks |
| `transactions` | open transactions, and how to end one that nobody will |
| `quorum` | who votes on the metadata, and changes of that |
| `cluster` | brokers, disks, versions, features |
| `admin` | topics and records; the class made of all these |
| `replicas` | replicas and leaders for the admin client: reassignments and elections |
"""
