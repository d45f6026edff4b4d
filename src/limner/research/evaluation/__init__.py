"""Evaluation: ranking metrics, c-way choice, stories, captions, and bootstrap intervals."""
