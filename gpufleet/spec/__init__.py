"""The fleet file: its models, its quantities, and the loader that says what is wrong and where."""
