"""The metadata of a cluster: its records, its image, and the decisions of the active controller.

| module | what it owns |
|---|---|
| `assignments` | rules for replicas that somebody has chosen by hand |
| `bootstrap` | the first records of a cluster |
| `broker_partitions` | the partitions of each broker, and those without their preferred leader |
| `brokers` | brokers and controllers: registration, heartbeats, fencing, controlled shutdown |
| `channel` | the way from a node to the active controller, on this node or another |
| `configs` | settings of topics, brokers, groups and metrics subscriptions that the cluster keeps |
| `difference` | what changed between two images of the cluster |
| `directories` | directory ids with a meaning of their own, as Kafka has them (KIP-858) |
| `draft` | an image to which very many changes are made in pieces, and which then counts at once |
| `elections` | elections that somebody asks for, or that a timer does |
| `feature_table` | the features of Kafka 4.3.1: their levels, what a new cluster gets |
| `features` | UpdateFeatures: the levels of the cluster's features go up or down |
| `formatting` | formatting: making directories into those of a node of a cluster |
| `framing` | metadata records as bytes: the value of a record in the metadata log (KIP-631) |
| `heartbeats` | who is alive: what the active controller remembers of brokers and does not write |
| `image_records` | an image as records: what a metadata snapshot holds |
| `isr` | AlterPartition: the leader of a partition says who is in sync |
| `leadership` | leaderships that move because a broker or a directory came or went |
| `loader` | the committed image: what remains of the metadata log up to the high watermark |
| `machine` | the active controller as a machine: commands in, records and answers out |
| `names` | names of topics: which are allowed, which collide, which belong to Kafka itself |
| `partition_change` | how a partition changes: from a wish about ISR or replicas to its record |
| `partitions` | more partitions for a topic |
| `placement` | where the replicas of new partitions go |
| `port` | where a change of the cluster's metadata goes, whichever node decides about it |
| `producer_ids` | AllocateProducerIds: blocks of ids |
| `publisher` | how a node learns of committed metadata |
| `quorum_requests` | requests about the quorum itself, which its leader answers |
| `quotas` | client quotas: limits for users, client ids and addresses |
| `reassignments` | reassignments: a partition moves to other brokers |
| `refusals` | the answer to a request that is refused as a whole, in the shape of its own API |
| `replica` | this node's replica of the metadata: follows the quorum's log in every role |
| `replica_directories` | AssignReplicasToDirs: where its replicas are (KIP-858) |
| `result` | what a command of the controller comes to: records and an answer, or an error |
| `scram` | SCRAM credentials given when a cluster is formatted (`--add-scram`) |
| `snapshotter` | when and how the committed image is written as a snapshot |
| `state` | what the decisions of the active controller rest on |
| `topics` | topics come and go: creation, deletion, and more partitions |
| `writing` | the decisions of the controller as batches of the metadata log |
| `active` | the active controller: exists while this node leads the quorum, and decides |
| `image` | the cluster as its metadata says it is |
"""
