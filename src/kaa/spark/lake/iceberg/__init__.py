"""Tables of Apache Iceberg, by pyiceberg; manifests and snapshots are our own.

| module | what it owns |
|---|---|
| `catalog` | the catalog, and the table of a topic together with its dead letters |
| `table` | one table: its state, files, columns and commits |
| `columns` | its columns, which are identified by field id |
| `spec` | its partitioning |
| `files` | what its manifests say of files |
| `deletes` | its files with positions of deleted rows |
| `progress` | how far it is, and whether that is still true |
| `snapshots` | its snapshots, with manifests that we write ourselves |
| `together` | snapshots of one table or of several, made current by one commit |
"""
