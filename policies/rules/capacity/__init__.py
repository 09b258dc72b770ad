"""Which instances may be used, in which places, and how they are bought."""
