"""One result, shown to people: plans and runs as terminal text, runs as the stable JSON."""
