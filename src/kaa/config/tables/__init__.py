"""The tables of settings, a module for each area. `vocabulary` says how rows are written."""
