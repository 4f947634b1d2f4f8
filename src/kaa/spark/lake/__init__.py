"""Tables out of topics: ``kaa lake``.

The table is the checkpoint. Each round reads the offsets that the newest commit of the table
carries, plans ranges of offsets, lets one Spark job write Parquet files of them, and adds the files
and the new offsets in one commit, which fails if somebody else committed meanwhile. So every record
is in the table once, whoever crashes when, and a lost machine goes on from the table alone.

The modules, from what decides to what acts:

``settings``      what a user may say
``machine``       the committer: rounds, commits, conflicts, unknown outcomes; pure
``plan``          from offsets of the table and of the topic to a round; pure
``partitioning``  day, hour, identity, bucket: the parts of a table, and rows divided among them
``table``         what a table must offer; the two kinds are
``iceberg``       Iceberg, by pyiceberg
``folder``        a folder of Parquet files with manifests
``store``         one setting for a disk or an object store
``writing``       what a task does: a range of offsets to Parquet files
``running``       tasks on Spark, or in this process
``driver``        performs what the machine wants
``upsert``        one row per key: rounds that rewrite buckets
``maintenance``   compaction, expiry and removal of orphans, each with a plan first
``reading``       state at an offset; table and live tail as one
``spark_table``   the same as the format ``kaa_table`` of Spark
``spark_sink``    tables that queries write, as the same format
``status``        offsets, lag and last commit
"""
