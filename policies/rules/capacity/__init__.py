"""Which machines may be asked for, where, and how they are bought."""
