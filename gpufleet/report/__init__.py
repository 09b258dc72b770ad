"""Output for people: plans and runs as terminal text, runs as the stable JSON, verdicts in all formats."""
