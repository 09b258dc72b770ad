"""README and guides: their output is current, and their commands run."""
