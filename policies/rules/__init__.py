"""One rule a file, in folders by what they protect: budget, tags, capacity, security, change_safety."""
