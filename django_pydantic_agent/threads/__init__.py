"""Conversations: what a post adds to one, and what the model sees of it."""
