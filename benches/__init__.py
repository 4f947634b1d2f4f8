"""Benchmarks: every figure is measured beside its peers, on one machine in one run.

`scripts/bench quick` and `scripts/bench full` measure Kaa beside Apache Kafka, cell by cell:
`cells` is the list of what is measured, `scale` how much of it, `runner` the order, `loads` how
each kind of cell is run, `drivers` the programs that put load on a broker, `brokers` the systems
under test, `sampling` what they cost, `verdicts` the rule, and `report` and `plots` what is kept
under `benches/results`. `limit` measures the machine itself, `budget` and `profiling` the inside of
Kaa.

`scripts/bench wire kernel` runs the smaller benchmarks of single parts, each with a result of its
own.
"""
