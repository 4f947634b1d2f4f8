"""The format `kaa_table` of Spark: tables read and written by queries.

| module | what it owns |
|---|---|
| `reader` | a table read by a batch query, one task for each file |
| `stream` | what was added to a table, read by a streaming query |
| `sink` | tables that queries write, each batch once |
"""
