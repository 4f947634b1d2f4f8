"""Tables out of topics: `kaa lake`.

The table is the checkpoint. Each round reads the offsets that the table carries, plans ranges of
offsets, lets one Spark job write Parquet files of them, and adds the files and the new offsets in
one commit, which fails if somebody else committed meanwhile. So every record is in the table once,
whatever crashes, and a lost machine goes on from the table alone. Other engines may change the
table between rounds and during them.

| module | what it owns |
|---|---|
| `settings` | what a user may say |
| `owned` | what the table keeps of that |
| `machine` | the committer: rounds, commits, conflicts, unknown outcomes; pure |
| `plan` | from offsets of the table and of the topic to a round; pure |
| `partitioning` | day, hour, identity, bucket: the parts of a table, and rows divided among them |
| `table` | what a table must offer; there are two kinds |
| `iceberg` | tables of Apache Iceberg |
| `folder` | folders of Parquet files with manifests |
| `files` | files of either kind, read |
| `store` | one setting for a disk or an object store |
| `writing` | what a task does: a range of offsets to Parquet files |
| `inferring` | columns of JSON that nobody has described, and how they grow |
| `running` | tasks on Spark, or in this process |
| `driver` | performs what the machine wants |
| `upsert` | one row per key: changed keys looked up, old rows deleted by position |
| `compaction` | small files written together |
| `maintenance` | expiry, removal of orphans, manifests written together, each with a plan first |
| `caring` | all of these between the rounds of a committer, by the policy of the table |
| `altering` | changes of what a table keeps |
| `resuming` | where a table that was rolled back goes on |
| `table_state` | a table as it is, as it was at an offset, and with the live tail of its topic |
| `increments` | what a stream reads of a table, and how far it is; pure |
| `kaa_table` | the format `kaa_table` of Spark |
| `listing` | which tables there are |
| `status` | offsets, lag and last commit |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.lazy import lazy_names

if TYPE_CHECKING:
    from kaa.spark.lake.table_state import with_live_tail

__all__ = ["with_live_tail"]

__getattr__, __dir__ = lazy_names(__name__, {"kaa.spark.lake.table_state": ["with_live_tail"]})
