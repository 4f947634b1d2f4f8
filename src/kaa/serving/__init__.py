"""What handlers share: delayed answers, fetch sessions, and the view of the node they serve."""
