"""Third-party tools that judge the resources of the program."""
