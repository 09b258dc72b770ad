"""The health check of a GPU node. Standard library only, Python 3.10 and later."""
