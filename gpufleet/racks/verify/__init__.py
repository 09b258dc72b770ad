"""Verification: what hosts measure after they were configured, compared with the fleet file.

`ansible/playbooks/verify.yml` measures and changes nothing; here is one function for each role that
judges what its hosts measured. A measurement that is missing is a failure.
"""
