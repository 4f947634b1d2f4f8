"""Load drivers: programs that put one kind of load on a broker and tell what they saw.

Each module is a program of its own, so that its processor time is known and it never shares an
interpreter with what measures. It gets its task as JSON on the command line, connects, prints
`ready`, waits for a line on its standard input, does its work, and prints the result as one line of
JSON: figures by name, and latencies as an HDR histogram under `latencies`. `benches.driving` is
the other side of it.

Where a client library would hide the time of a single request (it batches, it polls), a driver
speaks the protocol itself, in frames that are encoded once.
"""
