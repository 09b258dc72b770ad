"""Who can reach, read and do what."""
