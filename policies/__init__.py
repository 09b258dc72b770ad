"""The rules of this project's policy pack."""
