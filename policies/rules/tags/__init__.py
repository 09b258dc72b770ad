"""That every cost can be told to somebody."""
