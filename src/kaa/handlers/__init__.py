"""One module per API key: authorise, call the domain, shape the answer. `registry` ties them
together.

| module | what it owns |
|---|---|
| `altered_resources` | what both requests that alter settings have in common |
| `authorized_operations` | what a client may do, as bit fields of AclOperation codes (KIP-430) |
| `cluster_action` | what only nodes of the cluster send, and whether the sender may |
| `context` | what a handler knows of a request besides its fields, and what it gives back |
| `described_groups` | what the four calls that describe groups have in common |
| `forwarding` | requests that the active controller decides about, and where they came in |
| `in_slices` | answers of very many parts, made in turns of the loop |
| `once_applied` | requests that are served at once, unless their partitions have to be made first |
| `quorum_messages` | requests of the metadata quorum between their wire form and the machine's |
| `share_sessions` | what ShareFetch and ShareAcknowledge have in common: who asks |
| `share_state` | what the five calls about share state have in common (83 to 87) |
| `unknown_partitions` | what three requests about offsets of a group have in common |
| `without_authorizer` | what the three calls about ACLs share on a node that has no authorizer |
| `registry` | which APIs a listener serves, and the way of a frame to its handler and back |
"""
