"""Where remote segments are kept: an object store, and what the objects of a segment are called.

Modules, from the bottom up:

- `objects`: the Protocol of a store, its errors, and the twin in memory
- `places`: stores by their address: a directory, S3, Google Cloud Storage, Azure, memory
- `layout`: the names of the objects of a segment
- `segments`: a segment copied, read and deleted as a set of objects

| module | what it owns |
|---|---|
| `layout` | the names of the objects of a segment, as Kafka's LocalTieredStorage names its files |
| `objects` | a store of objects as the tier uses one, and its twin in memory |
| `places` | stores by their address, on obstore, whose work runs on threads of its own |
| `segments` | a segment as a set of objects: copied whole, read in ranges, deleted whole |
"""
