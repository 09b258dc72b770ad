"""The command line: thin commands over the library, one file a group of verbs."""
