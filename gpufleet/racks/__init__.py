"""The on-premises half: the Ansible inventory, the ansible-runner driver, what measurements mean."""
