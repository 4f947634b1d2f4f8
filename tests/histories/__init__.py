"""Histories of clients, and what may not happen in one: `checks` judges, `workload` makes them."""
