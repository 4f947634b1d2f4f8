"""Tiered storage (KIP-405): closed segments live in an object store, brokers keep the recent tail.

Packages, in the order data flows:

- `metadata`: which segments are in the store and in what state
- `store`: the store itself, and the objects of a segment
- `plan`: what to copy and what to delete
- `reading`: what is in the store, by offset and by time

| module | what it owns |
|---|---|
| `deletions` | whose remote segments are being removed, kept until that is done |
| `manager` | the broker's part of the tier: copies what it leads, deletes what has expired |
| `quota` | how many bytes per second go to or come from the store, and how long to wait for more |
| `slots` | at most so many at a time, where the number may change while others wait |
| `verify` | compares metadata, objects and logs, and repairs nothing |
| `metadata` | the metadata of remote segments |
| `plan` | what to copy to the store and what to delete from it: decisions without IO |
| `reading` | reading what is in the store: any offset of a log that is not local any more |
| `store` | where remote segments are kept |
"""
