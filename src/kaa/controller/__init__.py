"""The metadata of a cluster: its records, its image, and the decisions of the active controller."""
