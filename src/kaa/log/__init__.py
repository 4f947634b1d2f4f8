"""The log: what a broker keeps on disk, in Kafka's files, byte for byte.

| module | what it owns |
|---|---|
| `files`, `sim_files` | the file system as a Protocol: the real one, and a twin that crashes |
| `names` | names of files and folders |
| `index` | offset and time index of a segment |
| `transaction_index` | aborted transactions of a segment |
| `scan` | walking over batches in a file |
| `segment`, `segments` | one segment with its indexes; all of a log in order |
| `producer_state` | idempotence and transactions of a partition, without files |
| `producer_snapshots` | the same as a file; `replay` brings it up to date from batches |
| `leader_epochs` | where each leader epoch starts |
| `append` | what is refused, what is a duplicate, what is to be written where |
| `flush` | making a log durable, off the loop |
| `local_log`, `log` | the log: positions and files; what batches mean (`UnifiedLog`) |
| `lookup`, `retention` | offsets by timestamp; which segments may go |
| `truncation` | cutting a log back |
| `compaction` | one round of compaction; `transactions` and `swap` are parts of it |
| `cleaner` | which log is compacted next |
| `recovery` | loading a log after a clean stop, a crash or a power cut |
| `dirs`, `manager`, `jobs` | directories, all logs of a broker, disk work for other threads |
| `checkpoints` | tables of offsets; `properties` and `quorum_state`: other small files |
| `config`, `errors` | settings of a log; what can go wrong |
| `properties` | small identity files |
| `quorum_state` | `quorum-state`: the vote and the epoch of a KRaft node, one line of JSON |
| `replay` | feeding stored batches to the producer state |
| `swap` | replacing segments by their compacted successor |
| `transactions` | which batches belong to aborted transactions |

How it is used: `LogManager` loads and creates logs; the owner calls `tick` and runs the jobs
that come back, and drives `cleaner.work`. A partition appends and reads through its
`UnifiedLog`, sets its high watermark, and truncates it. Everything is called from one loop;
system calls that may take long come as jobs, long work as generators, and the time is handed in.

A crash may come between any two operations on a file. What each module promises about that stands
at its top; the tests run the whole with a crash at every operation, with unsynced data kept, lost
and torn.

| module | what it owns |
|---|---|
| `cancelled_moves` | the note that copies of a log are void, though their disk is away |
| `copy_check` | reading a copy that a start found, before it takes the place of its source |
| `futures` | future logs: copies that are to take the place of a log in another directory |
| `lost` | logs that were here and are gone, or are not whole |
| `overflow` | splitting a segment whose offsets do not fit its indexes (KAFKA-6264) |
| `pending` | an append whose bytes are being written by another thread |
| `rebuild` | a log that goes on where remote storage ends |
| `throttle` | how long background work rests to stay within a number of bytes per second |
| `upkeep` | what logs need while they run: checkpoints, flushes by time, retention, removals |
| `void` | notes of old logs on disks that failed, which must not be served when those are back |
"""
