"""Verification: comparison of configured hosts with the fleet file.

`ansible/playbooks/verify.yml` only measures. This package has one function per role that evaluates the
measurements. A missing measurement is a failure.
"""
