"""Record batches: view, build, validate, compress."""
