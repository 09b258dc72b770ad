"""A package, so that the API server of its tests ends with it."""
