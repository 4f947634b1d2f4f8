"""The life of a node in its cluster: it registers, stays alive by heartbeats, and leaves.

| module | |
|---|---|
| `machine` | the broker's states and what leads from one to the next |
| `driver` | sends what the machine asks for to the controller |
| `reporting` | a controller port whose failures are answers |
| `controllers` | the registration of a controller (KIP-919) |
"""
