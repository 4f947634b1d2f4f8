"""Reading what is in the store: any offset of a log that is not local any more.

Modules, from the bottom up:

| module | what it owns |
|---|---|
| `indexes` | lookups in the indexes of a remote segment, which are small and come whole |
| `index_files` | indexes on disk, over restarts, as Kafka keeps them |
| `cache` | what was read from the store lately, bounded in bytes, the least used goes first |
| `reader` | batches of a remote log by offset, and offsets by time |
"""
