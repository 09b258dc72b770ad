"""Mutation test: weakens what protects our components, and asks which rule or test notices."""
