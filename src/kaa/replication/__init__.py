"""Partitions as this broker holds them: leadership, in-sync replicas, high watermark.

============= ==================================================================================
module        what it owns
============= ==================================================================================
``partition`` one partition: appends and reads as its leader, the high watermark, who waits for it
``manager``   the partitions of this broker, made and ended as the metadata says
============= ==================================================================================
"""
