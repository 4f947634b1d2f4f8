"""What a node says about itself: figures that are measured while it serves."""
