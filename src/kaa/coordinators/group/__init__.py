"""The group coordinator: groups of the classic protocol, and committed offsets."""
