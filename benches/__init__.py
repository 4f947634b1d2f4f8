"""Benchmarks: every figure is measured beside its peers, on one machine in one run.

`scripts/bench` runs all parts, `scripts/bench wire kernel` only those named. Each part prints a
table and writes `benches/results/<part>.json` and `.md`, with the date, the versions and the
machine it ran on.
"""
