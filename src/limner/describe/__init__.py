"""Captions of pictures, and descriptions of pictures for steps, from models on the user's own server."""
