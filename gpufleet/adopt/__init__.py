"""A fleet file for what exists already: an AWS account, or a site that Slurm runs. Only reads.

`account` reads a region, `cloud` and `node_groups` make cloud sites of it, `slurm` makes rack sites of
Slurm's files, and `document` writes the fleet file with everything that differs.
"""
