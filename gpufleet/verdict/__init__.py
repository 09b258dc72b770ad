"""The verdict on a change of an environment: what it does, what it costs, which rules it breaks.

Everything here previews against an emulated AWS that is made for one verdict and thrown away, unless
a real preview is asked for. No account, no network, nothing of the user's state.
"""
