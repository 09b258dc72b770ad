"""The verdict on a change of an environment: changes, cost, and violated rules.

Unless a real preview is requested, previews run in a temporary emulated AWS: no account, no network, no
access to the user's state.
"""
