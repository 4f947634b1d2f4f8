"""The same requests to a real Kafka and to Kaa, and their answers compared field by field.

`case` says what a case is and runs it; `cases_*` have the cases of every API; `normal` says what is
not compared; `peers` starts the two nodes; `known` lists the differences that are meant, with the
reason of each; `table` writes the page about all of it.
"""
