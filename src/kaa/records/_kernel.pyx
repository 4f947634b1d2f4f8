# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""The compiled kernel: the loops that touch every record, one part per included file.

Each part has a pure-Python twin (``_pure_*``) with the same functions and the same results, run by
the same tests; ``kaa.records.kernel`` chooses between the two at import. Readers check every bound
themselves, so nothing is lost by switching Python's own checks off.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

include "_kernel_varint.pxi"
include "_kernel_validate.pxi"
include "_kernel_arrow.pxi"
include "_kernel_compaction.pxi"
include "_kernel_murmur2.pxi"
include "_kernel_objects.pxi"
