# Types of the compiled kernel: those of its Python twins, one line per included part.

from kaa.records._pure_arrow import ArrowDecoder as ArrowDecoder
from kaa.records._pure_arrow import encode_rows as encode_rows
from kaa.records._pure_arrow import order_by_partition as order_by_partition
from kaa.records._pure_compaction import offset_map_flags as offset_map_flags
from kaa.records._pure_compaction import offset_map_get as offset_map_get
from kaa.records._pure_compaction import offset_map_scan as offset_map_scan
from kaa.records._pure_compaction import offset_table as offset_table
from kaa.records._pure_compaction import retain_records as retain_records
from kaa.records._pure_murmur2 import murmur2 as murmur2
from kaa.records._pure_murmur2 import murmur2_partitions as murmur2_partitions

# --- objects: _kernel_objects.pxi
from kaa.records._pure_objects import decode_records as decode_records
from kaa.records._pure_objects import encode_record as encode_record
from kaa.records._pure_validate import RecordScanner as RecordScanner
from kaa.records._pure_validate import scan_plain as scan_plain
