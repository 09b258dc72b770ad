"""Rules against outages and data loss by a change."""
