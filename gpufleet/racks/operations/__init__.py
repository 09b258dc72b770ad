"""Day-2 operations of `gpufleet operate`.

`registry` lists them. Each is a playbook of ansible/playbooks with options; `run` runs it on hosts, keeps a
journal and what is needed to resume.
"""
