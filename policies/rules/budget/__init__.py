"""Limits on monthly cost, on one change, and on upfront payments."""
