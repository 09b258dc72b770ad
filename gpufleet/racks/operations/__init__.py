"""Day-2 operations: what `gpufleet operate` knows, and how it runs one.

`registry` lists them. Each is a playbook of ansible/playbooks with options; `run` runs it on hosts, keeps a
journal and what is needed to resume.
"""
