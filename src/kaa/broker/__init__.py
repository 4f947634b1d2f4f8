"""The composition root: builds a node out of its parts, and starts and stops them in order.

Nothing below imports this package. `node` is the place to start reading.

| module | what it owns |
|---|---|
| `assembly` | the parts of a node, made from its settings |
| `assignments` | sends the directories of replicas to the controller, as the machine of it says |
| `coordinators` | the coordinators of a node, made from its settings and parts |
| `development` | formats the empty directories of a development node |
| `directories` | the identity of a node's log directories |
| `duties` | what a broker does by itself, at its own pace: storage upkeep, idle clients |
| `executors` | where work off the loop runs: executors are made by a function that is handed in |
| `group_times` | the times of groups, from the settings of the broker and of each group |
| `image_changes` | what a change of the metadata means for the parts of a node |
| `lifecycle` | the life of a node in its cluster: it registers, sends heartbeats, and leaves |
| `metadata` | the part of a node that every role has: its replica of the metadata |
| `remedies` | what an operator does about an error that keeps a node from starting or going on |
| `services` | the services of a broker, built once: each part is given those that it uses |
| `tiering` | tiered storage of a node, made from its settings and put to work |
| `untiered` | what a node without tiered storage has to know of it |
| `topic_configs` | the settings of logs: what a topic has of its own |
| `node` | a node: everything put together, started and stopped in order |
"""

from kaa.broker.directories import NodeError, StartError
from kaa.broker.node import Broker, running

__all__ = ["Broker", "NodeError", "StartError", "running"]
