"""README and guides: what they print is what is printed, and their commands run."""
