"""Cloud nodes of a Slurm cluster: launched when jobs need them, terminated when Slurm suspends them.

The only state is Slurm's (states and reasons of nodes) and EC2's (instances and their tags). Each pass reads
both and does what is missing, so a killed program or a controller that takes over finishes the work of
another. Runs with the Python and the boto3 of the distribution: Debian 12, Ubuntu 22.04 and later.
"""
