# Types of the compiled kernel, one section per included part.

# --- validate (_kernel_validate.pxi) ---

# --- arrow (_kernel_arrow.pxi) ---

# --- compaction (_kernel_compaction.pxi) ---

# --- murmur2 (_kernel_murmur2.pxi) ---
