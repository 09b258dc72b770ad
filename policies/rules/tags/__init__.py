"""Rules on the tags by which cost is split."""
