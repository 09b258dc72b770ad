"""The command line: thin commands over the library, one file per group of verbs."""
