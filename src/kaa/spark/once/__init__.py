"""The exactly-once sink: a machine that decides, a driver that acts, and the part of the tasks."""
